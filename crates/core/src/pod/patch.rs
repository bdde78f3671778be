use std::collections::BTreeMap;

use json_patch::{
    AddOperation, CopyOperation, PatchOperation, RemoveOperation, ReplaceOperation,
    jsonptr::{PointerBuf, Token},
};
use serde::Serialize;
use serde_json::Value;

/// Collects the operations of a JSON patch.
///
/// What is already as wanted gives no operation, parents that are missing are created, and tokens are escaped, so the
/// patch of an unchanged pod is empty and every patch applies.
#[derive(Debug, Default)]
pub struct PatchBuilder {
    operations: Vec<PatchOperation>,
}

/// One step down in a document: a field's name or a list's index.
pub(crate) fn pointer<'t>(tokens: impl IntoIterator<Item = Token<'t>>) -> PointerBuf {
    PointerBuf::from_tokens(tokens)
}

impl PatchBuilder {
    /// Makes the value at `at` be `wanted`. The parent must exist.
    pub fn set<T: Serialize + PartialEq>(&mut self, at: PointerBuf, current: Option<&T>, wanted: &T) {
        if current == Some(wanted) {
            return;
        }
        if current.is_some() {
            let value = serde_json::to_value(wanted).unwrap_or(Value::Null);
            self.operations.push(PatchOperation::Replace(ReplaceOperation { path: at, value }));
        } else {
            self.add(at, wanted);
        }
    }

    /// Puts a value where none is, or into a list. The parent must exist.
    pub fn add<T: Serialize + ?Sized>(&mut self, at: PointerBuf, value: &T) {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.operations.push(PatchOperation::Add(AddOperation { path: at, value }));
    }

    /// Takes away what is at `at`, if it exists.
    pub fn remove(&mut self, at: PointerBuf, exists: bool) {
        if exists {
            self.operations.push(PatchOperation::Remove(RemoveOperation { path: at }));
        }
    }

    /// Makes the map at `at` have these entries and keep its others. The map is created if need be.
    pub fn merge(
        &mut self,
        at: &PointerBuf,
        current: Option<&BTreeMap<String, String>>,
        entries: BTreeMap<String, String>,
    ) {
        let Some(current) = current else {
            if !entries.is_empty() {
                self.set(at.clone(), None, &entries);
            }
            return;
        };
        for (key, wanted) in entries {
            let mut path = at.clone();
            path.push_back(Token::new(&key));
            self.set(path, current.get(&key), &wanted);
        }
    }

    /// Puts these behind what is in the list at `at`, which is created if need be.
    pub fn extend<T: Serialize>(&mut self, at: &PointerBuf, exists: bool, items: &[T]) {
        if !exists && !items.is_empty() {
            self.add(at.clone(), items);
            return;
        }
        for item in items {
            let mut end = at.clone();
            end.push_back(Token::new("-"));
            self.add(end, item);
        }
    }

    /// Puts a copy of what is at `from` behind what is in the list at `list`.
    pub fn copy_to_end(&mut self, from: PointerBuf, list: &PointerBuf) {
        let mut path = list.clone();
        path.push_back(Token::new("-"));
        self.operations.push(PatchOperation::Copy(CopyOperation { from, path }));
    }

    /// Makes the map at `at` have exactly these entries, one operation for each that differs. A map that is missing is
    /// created, unless it would be empty.
    pub fn exactly<V: Serialize + PartialEq>(
        &mut self,
        at: &PointerBuf,
        current: Option<&BTreeMap<String, V>>,
        wanted: &BTreeMap<String, V>,
    ) {
        let Some(current) = current else {
            if !wanted.is_empty() {
                self.set(at.clone(), None, wanted);
            }
            return;
        };
        let entry = |key: &String| {
            let mut path = at.clone();
            path.push_back(Token::new(key));
            path
        };
        for (key, value) in wanted {
            self.set(entry(key), current.get(key), value);
        }
        for key in current.keys().filter(|key| !wanted.contains_key(*key)) {
            self.remove(entry(key), true);
        }
    }

    /// Whether there is nothing to do so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The operations, in order.
    #[must_use]
    pub fn finish(self) -> Vec<PatchOperation> {
        self.operations
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn annotations() -> PointerBuf {
        pointer([Token::new("metadata"), Token::new("annotations")])
    }

    fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn applied(mut document: Value, patch: PatchBuilder) -> Value {
        json_patch::patch(&mut document, &patch.finish()).unwrap();
        document
    }

    #[test]
    fn a_missing_map_is_created_with_its_entries() {
        let mut patch = PatchBuilder::default();
        patch.merge(&annotations(), None, map(&[("a/b~c", "1")]));
        assert_eq!(
            applied(json!({"metadata": {}}), patch),
            json!({"metadata": {"annotations": {"a/b~c": "1"}}})
        );
    }

    #[test]
    fn a_map_is_made_equal_entry_by_entry() {
        let mut patch = PatchBuilder::default();
        patch.exactly(
            &annotations(),
            Some(&map(&[("same", "1"), ("other/key", "1"), ("gone", "1")])),
            &map(&[("same", "1"), ("other/key", "2"), ("new", "1")]),
        );
        assert_eq!(patch.operations.len(), 3);
        let before = json!({"metadata": {"annotations": {"same": "1", "other/key": "1", "gone": "1"}}});
        assert_eq!(
            applied(before, patch),
            json!({"metadata": {"annotations": {"same": "1", "other/key": "2", "new": "1"}}})
        );
    }

    #[test]
    fn keys_with_slashes_and_tildes_are_escaped() {
        let mut patch = PatchBuilder::default();
        patch.merge(&annotations(), Some(&map(&[("keep", "me")])), map(&[("a/b~c", "1")]));
        assert_eq!(
            applied(json!({"metadata": {"annotations": {"keep": "me"}}}), patch),
            json!({"metadata": {"annotations": {"keep": "me", "a/b~c": "1"}}})
        );
    }

    #[test]
    fn what_is_as_wanted_gives_no_operation() {
        let mut patch = PatchBuilder::default();
        patch.merge(&annotations(), Some(&map(&[("a", "1")])), map(&[("a", "1")]));
        patch.merge(&annotations(), None, BTreeMap::new());
        patch.set(annotations(), Some(&1), &1);
        patch.remove(annotations(), false);
        assert!(patch.finish().is_empty());
    }

    #[test]
    fn a_value_that_differs_is_replaced() {
        let mut patch = PatchBuilder::default();
        patch.merge(&annotations(), Some(&map(&[("a", "1")])), map(&[("a", "2")]));
        assert!(matches!(patch.operations[..], [PatchOperation::Replace(_)]));
    }
}
