//! Fails in every way a consumer can, chosen by the text of the message. What
//! Windlass makes of each is the point; nothing here is worth imitating.
//!
//! The whole text, without white space around it, is one of:
//!
//! | text | what the handler does |
//! |---|---|
//! | `ok` | returns `ok` |
//! | `ok-on:N` | returns `ok` at attempt N and later, before that `other` |
//! | `err-timeout` | returns `timeout` |
//! | `err-connection`, `err-permission`, `err-other` | returns `connection`, `permission-denied`, `other`; with `:TEXT` behind, that text |
//! | `panic` | panics; with `:TEXT` behind, saying that |
//! | `trap-unreachable` | runs into an `unreachable` instruction |
//! | `trap-stack` | recurses until the stack is used up (a trap over memory: Rust keeps its stack there) |
//! | `exit0`, `exit1` | ends the process, with that code |
//! | `loop` | loops for ever |
//! | `busy:MS` | computes for so many milliseconds, then returns `ok` |
//! | `sleep:MS` | sleeps for so many milliseconds, then returns `ok` |
//! | `memory` | takes memory until there is no more |
//! | `resources` | makes messages, up to 1,000,000, and keeps them, then returns `ok` |
//! | `output` | prints 8 MiB, then returns `ok` |
//! | `send:TOPIC` | sends one message to TOPIC; returns what `send` answered |
//! | `sends:N` | sends N messages to `poison/out`; returns the first error, else `ok` |
//! | `send-then-fail` | sends one message to `poison/out`, then returns `other` |
//! | `send-then-panic` | sends one message to `poison/out`, then panics |
//! | `send-denied` | sends to `denied`, for which it has no grant; returns what `send` answered |
//! | `send-denied-ok`, `send-denied-panic` | the same, but ignores the answer and returns `ok`, or panics |
//! | `too-many-sends` | sends 1,000 messages to `poison/out`, ignores the answers and returns `ok` |
//! | `endless-sends` | sends for ever, whatever is answered |
//! | `endless-output` | prints for ever |
//! | `big-send` | sends 64 messages of 256 KiB, ignores the answers and returns `ok` |
//! | `oversize` | sends one message of 2 MiB; returns what `send` answered |
//! | `send-bytes:N` | sends one message of N bytes; returns what `send` answered |
//! | `pairs:N` | sends one message with N pairs of metadata; returns what `send` answered |
//! | `send-after:MS` | sleeps for so many milliseconds, then sends one message and returns what `send` answered |
//! | `key` | sends with metadata `windlass-key`; returns what `send` answered |
//! | `meta:NAME=VALUE` | sends with this metadata; returns what `send` answered |
//! | `disconnected` | sends through a client it has given up; returns what `send` answered |
//! | `hop` | sends its text on to the topic it came from; returns what `send` answered |
//! | `describe` | sends to `poison/out` what it knows about its delivery, a line each, all metadata included |
//! | `reject:REASON` | calls `reject`, then returns `other` |
//! | `reject-ok:REASON` | sends one message, calls `reject`, then returns `ok` |
//! | `retry-after:MS` | calls `retry-after`, then returns `other` |
//! | `retry-after-ok:MS` | sends one message, calls `retry-after`, then returns `ok` |
//! | `reject-then-retry-after:MS` | calls both, `retry-after` last, then returns `other` |
//! | `retry-after-then-reject:REASON` | calls both, `reject` last, then returns `other` |
//!
//! Anything else returns `other`, saying so. What is sent has the text
//! `sent by poison` and the metadata `source-id`, where nothing else is said.

wit_bindgen::generate!({ path: "../../wit", world: "windlass:messaging/consumer", generate_all });

use exports::wasi::messaging::incoming_handler::{Error, Guest, Message};
use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};
use wasi::messaging::producer;
use wasi::messaging::types::Client;
use windlass::messaging::delivery;

const OUT: &str = "poison/out";
const DENIED: &str = "denied";

type Answer = Result<(), Error>;

struct Poison;

impl Guest for Poison {
    fn handle(message: Message) -> Answer {
        let data = message.data();
        let text = String::from_utf8_lossy(&data);
        match text.trim().split_once(':') {
            Some((way, argument)) => with_argument(way, argument),
            None => plain(text.trim(), &message),
        }
    }
}

/// The ways that need to be told nothing.
fn plain(way: &str, message: &Message) -> Answer {
    match way {
        "ok" => Ok(()),
        "err-timeout" => Err(Error::Timeout),
        "err-connection" | "err-permission" | "err-other" => {
            with_argument(way, "poison was told so")
        }
        "panic" => panic!("poison was told to panic"),
        "trap-unreachable" => unreachable_instruction(),
        "trap-stack" => use_up_stack(0),
        "exit0" => std::process::exit(0),
        "exit1" => std::process::exit(1),
        "loop" => loop_for_ever(),
        "memory" => take_memory(),
        "resources" => take_resources(),
        "output" => print_much(),
        "send-then-fail" => send(OUT).and_then(|()| other("failed after sending")),
        "send-then-panic" => panic!("panicked after {:?}", send(OUT)),
        "send-denied" => send(DENIED),
        "send-denied-ok" => send(DENIED).or(Ok(())),
        "send-denied-panic" => panic!("panicked over {:?}", send(DENIED)),
        "too-many-sends" => send_ignoring(1_000, b"one of 1,000"),
        "endless-sends" => loop {
            let _ = send(OUT);
        },
        "endless-output" => loop {
            print_much()?;
        },
        "big-send" => send_ignoring(64, &vec![b'x'; 256 << 10]),
        "oversize" => send_to(OUT, outgoing(&vec![b'x'; 2 << 20])),
        "key" => send_with("windlass-key", "poison"),
        "disconnected" => send_disconnected(),
        "hop" => send_to(&message.topic().unwrap_or_default(), outgoing(b"hop")),
        "describe" => send_to(OUT, outgoing(description(message).as_bytes())),
        _ => unknown(way),
    }
}

/// The ways with an argument behind a colon.
fn with_argument(way: &str, argument: &str) -> Answer {
    match way {
        "ok-on" => ok_on(number(argument)?),
        "err-connection" => Err(Error::Connection(argument.into())),
        "err-permission" => Err(Error::PermissionDenied(argument.into())),
        "err-other" => other(argument),
        "panic" => panic!("{argument}"),
        "busy" => compute_for(Duration::from_millis(number(argument)?)),
        "sleep" => {
            std::thread::sleep(Duration::from_millis(number(argument)?));
            Ok(())
        }
        "send-bytes" => {
            let length = usize::try_from(number(argument)?).unwrap_or(usize::MAX);
            send_to(OUT, outgoing(&vec![b'x'; length]))
        }
        "pairs" => {
            let message = outgoing(b"sent by poison");
            for pair in 0..number(argument)? {
                message.add_metadata(&format!("key-{pair}"), "value");
            }
            send_to(OUT, message)
        }
        "send-after" => {
            std::thread::sleep(Duration::from_millis(number(argument)?));
            send(OUT)
        }
        "send" => send(argument),
        "sends" => (0..number(argument)?).try_for_each(|_| send(OUT)),
        "meta" => match argument.split_once('=') {
            Some((name, value)) => send_with(name, value),
            None => other("`meta` wants NAME=VALUE"),
        },
        "reject" => {
            delivery::reject(argument);
            other("rejected")
        }
        "reject-ok" => {
            send(OUT)?;
            delivery::reject(argument);
            Ok(())
        }
        "retry-after" => {
            delivery::retry_after(number(argument)?);
            other("wants to be tried later")
        }
        "retry-after-ok" => {
            send(OUT)?;
            delivery::retry_after(number(argument)?);
            Ok(())
        }
        "reject-then-retry-after" => {
            delivery::reject("changed its mind");
            delivery::retry_after(number(argument)?);
            other("wants to be tried later")
        }
        "retry-after-then-reject" => {
            delivery::retry_after(60_000);
            delivery::reject(argument);
            other("rejected")
        }
        _ => unknown(way),
    }
}

fn unknown(way: &str) -> Answer {
    other(&format!("poison knows no `{way}`"))
}

fn other(text: &str) -> Answer {
    Err(Error::Other(text.into()))
}

fn number(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| Error::Other(format!("`{text}` is no number")))
}

fn ok_on(attempt: u64) -> Answer {
    let now = u64::from(delivery::attempt());
    if now < attempt { other(&format!("attempt {now}, ok on {attempt}")) } else { Ok(()) }
}

// Ending without an answer.

fn unreachable_instruction() -> ! {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    std::process::abort()
}

#[allow(unconditional_recursion, reason = "the lesson")]
fn use_up_stack(depth: u64) -> Answer {
    let frame = black_box([depth; 32]);
    use_up_stack(frame[0] + 1).and_then(|()| other(&frame[1].to_string()))
}

// Taking more than there is.

fn loop_for_ever() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

fn compute_for(time: Duration) -> Answer {
    let start = Instant::now();
    while start.elapsed() < time {
        black_box((0..10_000_u64).fold(0, |sum, turn| black_box(sum ^ turn)));
    }
    Ok(())
}

fn take_memory() -> ! {
    let mut taken = Vec::new();
    loop {
        taken.push(black_box(vec![1_u8; 1 << 20]));
    }
}

fn take_resources() -> Answer {
    let taken: Vec<_> = (0..1_000_000).map(|_| Message::new(b"")).collect();
    black_box(taken);
    Ok(())
}

fn print_much() -> Answer {
    let line = [b'.'; 127];
    for _ in 0..(8 << 20) / 128 {
        // The host may close our output; that alone is no failure.
        let _ =
            std::io::stdout().write_all(&line).and_then(|()| std::io::stdout().write_all(b"\n"));
    }
    Ok(())
}

// Sending.

fn outgoing(data: &[u8]) -> Message {
    let message = Message::new(data);
    message.set_content_type("text/plain; charset=utf-8");
    message.add_metadata("source-id", &delivery::id());
    message
}

fn send_to(topic: &str, message: Message) -> Answer {
    producer::send(&Client::connect("default")?, topic, message)
}

fn send(topic: &str) -> Answer {
    send_to(topic, outgoing(b"sent by poison"))
}

fn send_with(name: &str, value: &str) -> Answer {
    let message = outgoing(b"sent by poison");
    message.add_metadata(name, value);
    send_to(OUT, message)
}

fn send_ignoring(count: u32, data: &[u8]) -> Answer {
    for _ in 0..count {
        let _ = send_to(OUT, outgoing(data));
    }
    Ok(())
}

fn send_disconnected() -> Answer {
    let client = Client::connect("default")?;
    client.disconnect()?;
    producer::send(&client, OUT, outgoing(b"sent by poison"))
}

fn description(message: &Message) -> String {
    let mut lines = vec![
        format!("id: {}", delivery::id()),
        format!("attempt: {}", delivery::attempt()),
        format!("deadline-ms: {}", delivery::deadline_ms()),
        format!("topic: {}", message.topic().unwrap_or_default()),
        format!("content-type: {}", message.content_type().unwrap_or_default()),
    ];
    let metadata = message.metadata().unwrap_or_default();
    lines.extend(metadata.iter().map(|(name, value)| format!("metadata {name}: {value}")));
    lines.join("\n")
}

export!(Poison);
