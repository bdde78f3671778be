//! The wire format of reviews, read without copying the pod.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine, engine::general_purpose::STANDARD};
use podwright_core::mutate::{self, Ask, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fault::Fault;

/// A review as the API server sends it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Review<'b> {
    #[serde(borrow, default)]
    api_version: Cow<'b, str>,
    #[serde(borrow, default)]
    kind: Cow<'b, str>,
    #[serde(borrow)]
    request: Option<Request<'b>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'b> {
    #[serde(borrow, default)]
    uid: Cow<'b, str>,
    #[serde(borrow, default)]
    operation: Cow<'b, str>,
    #[serde(borrow, default)]
    sub_resource: Cow<'b, str>,
    #[serde(borrow, default)]
    namespace: Cow<'b, str>,
    #[serde(borrow, default)]
    kind: Kind<'b>,
    #[serde(default)]
    dry_run: Option<bool>,
    #[serde(borrow)]
    object: Option<&'b RawValue>,
}

#[derive(Default, Deserialize)]
struct Kind<'b> {
    #[serde(borrow, default)]
    group: Cow<'b, str>,
    #[serde(borrow, default)]
    kind: Cow<'b, str>,
}

/// What is asked, once it is known to make sense.
pub(crate) struct Question<'b> {
    /// The version to answer in.
    api_version: Cow<'b, str>,
    uid: Cow<'b, str>,
    ask: Ask,
    namespace: Cow<'b, str>,
    dry_run: bool,
    /// The pod's JSON.
    pub(crate) pod: &'b str,
}

impl<'b> Question<'b> {
    pub(crate) fn read(body: &'b [u8]) -> Result<Self, Unanswerable<'b>> {
        let text = std::str::from_utf8(body).map_err(|_| Fault::bad("the body is not UTF-8"))?;
        let review: Review<'b> = serde_json::from_str(text)
            .map_err(|error| Fault::bad(format!("the body is not an AdmissionReview: {error}")))?;
        if review.kind != "AdmissionReview" {
            return Err(Fault::bad(format!("expected kind AdmissionReview, got {:?}", review.kind)).into());
        }
        if !matches!(&*review.api_version, "admission.k8s.io/v1" | "admission.k8s.io/v1beta1") {
            let message = format!(
                "apiVersion {:?} is not supported; admission.k8s.io/v1 and v1beta1 are",
                review.api_version
            );
            return Err(Fault::bad(message).into());
        }
        let request = review.request.ok_or_else(|| Fault::bad("the review has no request"))?;
        if request.uid.is_empty() {
            return Err(Fault::bad("the request has no uid").into());
        }
        if !request.kind.group.is_empty() || request.kind.kind != "Pod" {
            let (Kind { group, kind }, uid) = (request.kind, request.uid);
            return Err(Unanswerable::NotAPod { api_version: review.api_version, uid, kind, group });
        }
        let ask = match (&*request.operation, &*request.sub_resource) {
            ("CREATE", "") => Ask::Create,
            ("UPDATE", "resize") => Ask::Resize,
            (operation, sub_resource) => {
                let fault = Fault::bad(format!(
                    "operation {operation:?} on subresource {sub_resource:?} is not reviewed here: CREATE of pods and UPDATE \
                     of pods/resize are"
                ));
                return Err(fault.into());
            }
        };
        let pod = request.object.map(RawValue::get).filter(|pod| *pod != "null");
        let pod = pod.ok_or_else(|| Fault::bad("the request has no object"))?;
        Ok(Self {
            api_version: review.api_version,
            uid: request.uid,
            ask,
            namespace: request.namespace,
            dry_run: request.dry_run.unwrap_or_default(),
            pod,
        })
    }

    /// What is asked, as mutators see it.
    pub(crate) fn request(&self) -> mutate::Request<'_> {
        mutate::Request { ask: self.ask, namespace: &self.namespace, uid: &self.uid, dry_run: self.dry_run }
    }

    /// The answer to it, in the version that it came in.
    pub(crate) fn answer(&self, outcome: &Outcome) -> Result<Vec<u8>, Fault> {
        answer(&self.api_version, &self.uid, outcome)
    }
}

/// Why a review is not a question about a pod.
pub(crate) enum Unanswerable<'b> {
    /// It cannot be read, or makes no sense.
    Fault(Fault),
    /// It is about something else.
    NotAPod { api_version: Cow<'b, str>, uid: Cow<'b, str>, kind: Cow<'b, str>, group: Cow<'b, str> },
}

impl From<Fault> for Unanswerable<'_> {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Unanswerable<'_> {
    /// What is wrong with it.
    pub(crate) fn fault(self) -> Fault {
        match self {
            Self::Fault(fault) => fault,
            Self::NotAPod { kind, group, .. } => Fault::bad(format!(
                "only Pods are reviewed here, not {kind:?} of group {group:?}: mend the rules of the webhook configuration"
            )),
        }
    }

    /// Lets through what is not a pod.
    pub(crate) fn let_through(self) -> Result<Vec<u8>, Fault> {
        match self {
            Self::Fault(fault) => Err(fault),
            Self::NotAPod { api_version, uid, .. } => answer(&api_version, &uid, &Outcome::skipped()),
        }
    }
}

fn answer(api_version: &str, uid: &str, outcome: &Outcome) -> Result<Vec<u8>, Fault> {
    let patch = match &outcome.patch[..] {
        [] => None,
        operations => Some(STANDARD.encode(serde_json::to_vec(operations).map_err(Fault::ours)?)),
    };
    let answer = Answer {
        api_version,
        kind: "AdmissionReview",
        response: Response {
            uid,
            allowed: outcome.denial.is_none(),
            patch_type: patch.as_ref().map(|_| "JSONPatch"),
            patch,
            warnings: &outcome.warnings,
            audit_annotations: &outcome.audit,
            status: outcome.denial.as_deref().map(|message| Status {
                code: 403,
                reason: "Forbidden",
                message,
            }),
        },
    };
    serde_json::to_vec(&answer).map_err(Fault::ours)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    api_version: &'a str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: &'a BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
}

#[derive(Serialize)]
struct Status<'a> {
    code: u16,
    reason: &'static str,
    message: &'a str,
}
