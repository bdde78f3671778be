//go:build tools

// Package controlplane pins the programs that the lab runs. Nothing here is compiled as such: the
// imports keep `go mod tidy` from dropping the modules, and `podwright-lab` builds each main package.
package controlplane

import (
	_ "go.etcd.io/etcd/server/v3"
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
