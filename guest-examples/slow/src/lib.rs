//! Takes as long as the message says: `250ms`, `2s`, or several of them, which
//! add up. Fails when it says `ERROR`, after having slept.
//!
//! Shows leases being extended under a slow handler, concurrency, the wall-clock
//! limit, and what a stop does with work that is under way.

wit_bindgen::generate!({ path: "../../wit", world: "windlass:messaging/consumer", generate_all });

use exports::wasi::messaging::incoming_handler::{Error, Guest, Message};
use std::time::Duration;

/// What a message asks for.
#[derive(Debug, Default, PartialEq)]
struct Order {
    sleep: Duration,
    fail: bool,
}

struct Slow;

impl Guest for Slow {
    fn handle(message: Message) -> Result<(), Error> {
        let order = parse(&String::from_utf8_lossy(&message.data())).map_err(Error::Other)?;
        std::thread::sleep(order.sleep);
        if order.fail {
            return Err(Error::Other("the message says ERROR".into()));
        }
        println!("slept {} ms", order.sleep.as_millis());
        Ok(())
    }
}

fn parse(text: &str) -> Result<Order, String> {
    let mut order = Order::default();
    for word in text.split_whitespace() {
        if word == "ERROR" {
            order.fail = true;
        } else {
            let sleep = duration(word).ok_or_else(|| {
                format!("`{word}` is neither `ERROR` nor a time like `250ms` or `2s`")
            })?;
            order.sleep = order.sleep.saturating_add(sleep);
        }
    }
    Ok(order)
}

fn duration(word: &str) -> Option<Duration> {
    let (number, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit())?);
    let number = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

export!(Slow);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_add_up_and_error_may_stand_anywhere() {
        let order = parse(" 250ms ERROR\n2s ").unwrap();
        assert_eq!(order, Order { sleep: Duration::from_millis(2250), fail: true });
        assert_eq!(parse(""), Ok(Order::default()));
    }

    #[test]
    fn what_is_no_time_is_named_not_slept() {
        for word in ["2", "2m", "s", "-1s", "error", "99999999999999999999s"] {
            assert!(parse(word).unwrap_err().contains(word), "{word}");
        }
    }
}
