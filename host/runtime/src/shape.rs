//! Which contract a component was written for, told by its exports and their types.
//!
//! Three incompatible shapes share the name `wasi:messaging@0.2.0-draft`, so a name alone tells
//! nothing: what counts is the type of what is exported under it.

use crate::bindings::DRAFT;
use crate::component::CheckError;
use wasmtime::component::Type;
use wasmtime::component::types::{Component, ComponentFunc, ComponentItem};

/// The contract that is built.
pub(crate) const STANDARD: &str = "wasi:messaging@0.2.0-draft (incoming-handler)";

/// Exports by which other contracts are known, up to the version, and what to call those.
const OTHERS: &[(&str, &str)] = &[
    (
        "wasi:messaging/messaging-guest",
        "the shape `wasi:messaging@0.2.0-draft` had until October 2024 (`messaging-guest`)",
    ),
    ("wasmcloud:messaging/handler", "a handler of `wasmcloud:messaging`"),
    ("wasmcloud:messaging/incoming-handler", "a handler of `wasmcloud:messaging` 0.3 of 2024"),
    ("fermyon:spin/inbound-redis", "a handler of Spin's Redis trigger"),
    ("spin:redis/inbound-redis", "a handler of Spin's Redis trigger (version 4)"),
    ("fermyon:spin-sqs/", "a handler of Spin's SQS trigger"),
    ("spin:mqtt-trigger/", "a handler of Spin's MQTT trigger"),
    ("wasi:http/incoming-handler", "an HTTP handler (`wasi:http`)"),
    ("wasi:http/handler", "an HTTP handler (`wasi:http` 0.3)"),
    ("wasi:cli/run", "a command (`wasi:cli/run`)"),
];

const HANDLER: &str = "wasi:messaging/incoming-handler";
const ASYNC_HANDLER: &str =
    "the shape of `wasi:messaging@0.2.0-draft` with async functions (`handle: async func`)";

/// What a component that uses async functions was written for. The engine refuses those before
/// they have types, so its names are all there is to go by.
pub(crate) fn of_async(bytes: &[u8]) -> CheckError {
    let has = |name: &str| bytes.windows(name.len()).any(|window| window == name.as_bytes());
    let found = if has(HANDLER) {
        ASYNC_HANDLER
    } else {
        let other = OTHERS.iter().find(|(name, _)| has(name));
        other.map_or("a contract with async functions", |(_, what)| *what)
    };
    CheckError::OtherShape { found: found.to_owned() }
}

/// Checks that `component` exports the handler in the shape that is built.
pub(crate) fn check(engine: &wasmtime::Engine, component: &Component) -> Result<(), CheckError> {
    let exact = format!("{HANDLER}@{DRAFT}");
    let Some(item) = component.get_export(engine, &exact) else {
        return Err(other(component.exports(engine).map(|(name, _)| name.to_owned()).collect()));
    };
    let wrong = |why: String| Err(CheckError::Handler { export: exact.clone(), why });
    let ComponentItem::ComponentInstance(instance) = item.ty else {
        return wrong("it is not an interface".to_owned());
    };
    match instance.get_export(engine, "handle").map(|item| item.ty) {
        Some(ComponentItem::ComponentFunc(handle)) if handle.async_() => {
            Err(CheckError::OtherShape { found: ASYNC_HANDLER.to_owned() })
        }
        Some(ComponentItem::ComponentFunc(handle)) => match fault(&handle) {
            Some(why) => wrong(why.to_owned()),
            None => Ok(()),
        },
        Some(_) => wrong("`handle` is not a function".to_owned()),
        None => wrong("it has no function `handle`".to_owned()),
    }
}

/// What is wrong with the type of `handle`.
fn fault(handle: &ComponentFunc) -> Option<&'static str> {
    let mut params = handle.params();
    let (Some((_, Type::Own(_))), None) = (params.next(), params.next()) else {
        return Some("`handle` must take one message, and nothing else");
    };
    let mut results = handle.results();
    let (Some(Type::Result(answer)), None) = (results.next(), results.next()) else {
        return Some("`handle` must answer `result<_, error>`");
    };
    let cases = match answer.err() {
        Some(Type::Variant(error)) if answer.ok().is_none() => {
            error.cases().map(|case| case.name.to_owned()).collect::<Vec<_>>()
        }
        _ => return Some("`handle` must answer `result<_, error>`"),
    };
    (cases != ["timeout", "connection", "permission-denied", "other"])
        .then_some("the error that `handle` answers has other cases than the draft's")
}

/// What a component without the handler is, as far as its exports tell.
fn other(exports: Vec<String>) -> CheckError {
    for name in &exports {
        if name.starts_with("wasi:messaging/incoming-handler@") {
            let found = format!("`{name}`, another version than {DRAFT}");
            return CheckError::OtherShape { found };
        }
        if let Some((_, what)) = OTHERS.iter().find(|(known, _)| name.starts_with(known)) {
            return CheckError::OtherShape { found: format!("{what}, exported as `{name}`") };
        }
    }
    CheckError::NoHandler { exports }
}
