//! The one place where a guest's answer is read.
//!
//! [`ending`] sorts errors out of wasmtime, [`outcome`] puts everything known about an
//! invocation into the order of the contract's law 26: the first match wins, from the top.

use crate::bindings::GuestError;
use crate::delivery::Stop;
use crate::store::{Facts, LastWord, Stopped, too_many_resources, too_much_in_a_call};
use wasmtime::component::ResourceTableError;
use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;
use windlass_core::history::{TEXT_BYTES_MAX, cut};
use windlass_core::{Limits, Outcome};

/// Frames told of a trap that comes without words of the guest.
const FRAMES_MAX: usize = 5;
/// Room left to a trap's cause behind the guest's own words.
const CAUSE_BYTES_MAX: usize = 512;

/// How a call ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Answered(Result<(), GuestError>),
    Trapped(String),
    TimedOut,
    OutOfCpu,
    OutOfMemory,
    TooMuch(String),
    Stopped(Stop),
}

/// Sorts what wasmtime says. `last_words`: the end of the guest's stderr.
pub(crate) fn ending(
    called: wasmtime::Result<Result<(), GuestError>>,
    last_words: impl FnOnce() -> String,
    limits: &Limits,
) -> Ending {
    let error = match called {
        Ok(answer) => return Ending::Answered(answer),
        Err(error) => error,
    };
    if let Some(stopped) = error.downcast_ref::<Stopped>() {
        return match stopped {
            Stopped::OutOfMemory => Ending::OutOfMemory,
            Stopped::OutOfCpu => Ending::OutOfCpu,
            Stopped::TimedOut => Ending::TimedOut,
            Stopped::TooMuch(text) => Ending::TooMuch(text.clone()),
        };
    }
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        return Ending::TooMuch(too_many_resources(limits));
    }
    // wasmtime has no type for it.
    if error.root_cause().to_string().contains("fuel allocated for hostcalls") {
        return Ending::TooMuch(too_much_in_a_call());
    }
    Ending::Trapped(trap_text(&error, &last_words()))
}

/// The guest's own words, then the cause; the cause is never what is cut off.
fn trap_text(error: &wasmtime::Error, last_words: &str) -> String {
    let cause = match (error.downcast_ref::<I32Exit>(), error.downcast_ref::<Trap>()) {
        (Some(I32Exit(code)), _) => format!("exit({code}) was called before `handle` answered"),
        (None, Some(trap)) => trap.to_string(),
        (None, None) => error.root_cause().to_string(),
    };
    let cause = cut(&cause, CAUSE_BYTES_MAX);
    if last_words.is_empty() {
        let frames = frames(error);
        return cut(&format!("{cause}{frames}"), TEXT_BYTES_MAX).to_owned();
    }
    format!("{}\n{cause}", cut(last_words, TEXT_BYTES_MAX - CAUSE_BYTES_MAX - 1))
}

/// Where it happened, as far as the component has names.
fn frames(error: &wasmtime::Error) -> String {
    let frames = error.downcast_ref::<WasmBacktrace>().map_or(&[][..], WasmBacktrace::frames);
    let names = frames.iter().filter_map(wasmtime::FrameInfo::func_name).take(FRAMES_MAX);
    names.fold(String::new(), |told, name| told + "\n  in " + name)
}

/// Law 26.
///
/// Two rows stand higher than in the table there, which lists them below the answers they come
/// with: a failure after a send found no room would else never be seen, nor would a send beyond
/// the last hop, because `send` answers an error and guests pass that on.
pub(crate) fn outcome(ending: Ending, facts: Facts, limits: &Limits) -> Outcome {
    match ending {
        Ending::Stopped(Stop::LeaseLost) => return Outcome::LeaseLost,
        Ending::Stopped(Stop::Interrupted) => return Outcome::Interrupted,
        Ending::Answered(_)
        | Ending::Trapped(_)
        | Ending::TimedOut
        | Ending::OutOfCpu
        | Ending::OutOfMemory
        | Ending::TooMuch(_) => {}
    }
    if !facts.entered {
        return Outcome::StartFailed { text: start_text(ending, limits) };
    }
    let Facts { grant_refused, full, hops_exceeded, too_much, last_word, sends, .. } = facts;
    let outcome = match too_much {
        Some(text) => Outcome::TooMuch { text },
        None => answer(ending, last_word, hops_exceeded, sends, limits),
    };
    if matches!(outcome, Outcome::Done { .. }) {
        return outcome;
    }
    if let Some(grant) = grant_refused {
        let text = said(&outcome);
        return Outcome::GrantMissing { grant, text };
    }
    match full {
        Some(text) if !is_asked_for(&outcome) => Outcome::Refused { text },
        _ => outcome,
    }
}

/// From limits and traps down to `ok`.
fn answer(
    ending: Ending,
    last_word: Option<LastWord>,
    hops_exceeded: Option<String>,
    sends: Vec<windlass_core::NewMessage>,
    limits: &Limits,
) -> Outcome {
    let answered = match ending {
        Ending::Answered(answered) => answered,
        Ending::Trapped(text) => return Outcome::Trapped { text },
        Ending::TimedOut => return Outcome::TimedOut { limit: limits.wall },
        Ending::OutOfCpu => return Outcome::OutOfCpu { limit: limits.cpu },
        Ending::OutOfMemory => return Outcome::OutOfMemory { limit: limits.memory_bytes },
        Ending::TooMuch(text) => return Outcome::TooMuch { text },
        Ending::Stopped(Stop::LeaseLost) => return Outcome::LeaseLost,
        Ending::Stopped(Stop::Interrupted) => return Outcome::Interrupted,
    };
    match last_word {
        Some(LastWord::Reject(reason)) => return Outcome::Rejected { reason },
        Some(LastWord::RetryAfter(after)) => return Outcome::RetryAsked { after },
        None => {}
    }
    if let Some(text) = hops_exceeded {
        return Outcome::HopsExceeded { text };
    }
    let cut = |text: String| cut(&text, TEXT_BYTES_MAX).to_owned();
    match answered {
        Ok(()) => Outcome::Done { sends },
        Err(GuestError::PermissionDenied(text)) => Outcome::Denied { text: cut(text) },
        Err(GuestError::Timeout) => {
            Outcome::Failed { kind: "timeout", text: "the handler answered `timeout`".to_owned() }
        }
        Err(GuestError::Connection(text)) => {
            Outcome::Failed { kind: "connection", text: cut(text) }
        }
        Err(GuestError::Other(text)) => Outcome::Failed { kind: "other", text: cut(text) },
    }
}

/// Whether the guest said itself what is to be done, or messages run in a circle: room for them
/// would change nothing.
fn is_asked_for(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Rejected { .. } | Outcome::RetryAsked { .. } | Outcome::HopsExceeded { .. }
    )
}

fn said(outcome: &Outcome) -> String {
    cut(&format!("{}: {}", outcome.name(), outcome.text()), TEXT_BYTES_MAX).to_owned()
}

/// A fault before `handle` is entered.
fn start_text(ending: Ending, limits: &Limits) -> String {
    match ending {
        Ending::Trapped(text) | Ending::TooMuch(text) => text,
        Ending::TimedOut => format!("it did not start within {:?} (limits.wall)", limits.wall),
        Ending::OutOfCpu => {
            format!("it computed longer than {:?} before `handle` (limits.cpu)", limits.cpu)
        }
        Ending::OutOfMemory => {
            format!("it needs more than {} bytes to start (limits.memory)", limits.memory_bytes)
        }
        Ending::Answered(_) | Ending::Stopped(_) => String::new(),
    }
}
