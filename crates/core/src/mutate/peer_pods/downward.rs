use json_patch::jsonptr::Token;

use super::account::{Account, Accounts};
use crate::{
    pod::{PatchBuilder, ResourceFieldRef, Resources, pointer},
    quantity::Quantity,
};

/// Replaces variables that read a request or limit by the number that the container had asked for.
///
/// A variable that reads what was never set stays a reference: it reads the same as before.
pub(super) fn make_literal(patch: &mut PatchBuilder, accounts: &Accounts<'_>) {
    for (section, list) in [("containers", &accounts.main), ("initContainers", &accounts.init)] {
        for (index, account) in list.iter().enumerate() {
            for (nth, _, value) in references(account, accounts) {
                let field = |name: &'static str| {
                    pointer([
                        Token::new("spec"),
                        Token::new(section),
                        Token::from(index),
                        Token::new("env"),
                        Token::from(nth),
                        Token::new(name),
                    ])
                };
                patch.remove(field("valueFrom"), true);
                patch.set(field("value"), None, &value);
            }
        }
    }
}

/// The container's variables that read what some container had asked for: index, field and the value that was meant.
pub(super) fn references<'a>(
    account: &'a Account<'_>,
    accounts: &'a Accounts<'_>,
) -> impl Iterator<Item = (usize, &'a str, String)> {
    account.container.env.iter().enumerate().filter_map(move |(nth, variable)| {
        let source = variable.value_from.as_ref()?.resource_field_ref.as_ref()?;
        let named = source.container_name.as_deref().filter(|name| !name.is_empty());
        let owner = named.unwrap_or(&account.container.name);
        let owner = accounts.all().find(|other| other.container.name == owner)?;
        Some((nth, source.resource.as_str(), literal(source, &owner.original)?))
    })
}

fn literal(source: &ResourceFieldRef, original: &Resources) -> Option<String> {
    let (list, name) = source.resource.split_once('.')?;
    let amount = match list {
        "requests" => original.request(name),
        "limits" => original.limit(name),
        _ => return None,
    };
    let divisor = source.divisor.unwrap_or(Quantity::units(1));
    amount.is_positive().then(|| amount.ceil_to(&divisor).to_string())
}
