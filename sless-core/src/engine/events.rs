//! What becomes of messages: the one rule for all queues.

use std::{sync::Weak, time::Duration};

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};

use super::{Call, Engine, points};
use crate::{
    Body, Delivery, DeliveryOptions, Disposition, Error, EventSink, Message, Name, Namespace,
    Origin, Result,
};

/// Calls a trigger's function with each message of its queue.
#[derive(Debug)]
pub(super) struct FunctionSink {
    /// Weak, since the dispatcher outlives the engine.
    pub(super) engine: Weak<Engine>,
    pub(super) namespace: Namespace,
    pub(super) trigger: Name,
    pub(super) function: Name,
    pub(super) delivery: DeliveryOptions,
}

#[async_trait]
impl EventSink for FunctionSink {
    async fn deliver(&self, delivery: Delivery) -> Disposition {
        let Some(engine) = self.engine.upgrade() else {
            return Disposition::Release;
        };
        // Taken before it is asked whether the engine ends: either the end waits for this delivery and
        // its record, or the message is left to others.
        let _under_way = engine.tasks.token();
        if engine.stop.is_cancelled() {
            return Disposition::Release;
        }
        let attempt = delivery.attempt;
        let request_id = format!("{}-{attempt}", engine.name_of(&delivery));
        let request = match request(&self.trigger, delivery) {
            Ok(request) => request,
            Err(error) => {
                return Disposition::Dead {
                    reason: error.message().to_owned(),
                };
            }
        };
        let call = Call::new(self.namespace.clone(), self.function.clone(), request)
            .from_origin(Origin::Event, Some(self.trigger.clone()))
            .with_attempt(attempt)
            .with_request_id(request_id);
        let called = engine.call_to_the_end(call).await;
        points::EVENT_CALLED.pass();
        match called {
            Ok(status) if status.is_success() => Disposition::Done,
            Ok(status) => dispose(
                &self.delivery,
                attempt,
                format!("the function answered {status}"),
            ),
            Err(error) => dispose(&self.delivery, attempt, error.message().to_owned()),
        }
    }
}

impl Engine {
    /// What names the calls of a message: its own id, where that can stand in a log.
    fn name_of(&self, delivery: &Delivery) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let id = &delivery.message.id;
        if !id.is_empty() && id.len() <= 64 && id.chars().all(plain) {
            return id.clone();
        }
        self.new_name().as_str().to_owned()
    }

    /// Calls a function and reads its answer to the end, at most `event_answer_bytes` of it.
    pub(super) async fn call_to_the_end(&self, call: Call) -> Result<http::StatusCode> {
        let response = self.call(call).await?;
        let status = response.status();
        match response
            .into_body()
            .bytes(self.options.event_answer_bytes)
            .await
        {
            // A long answer is not an error of the function; only nobody reads it to the end.
            Err(error) if error.kind() != crate::ErrorKind::LimitExceeded => Err(error),
            _ => Ok(status),
        }
    }
}

/// What becomes of a message whose attempt failed: it comes again with a delay that doubles each
/// time, and after the last attempt it is dead.
pub fn dispose(options: &DeliveryOptions, attempt: u32, reason: String) -> Disposition {
    if attempt >= options.max_attempts {
        let word = if options.max_attempts == 1 {
            "attempt"
        } else {
            "attempts"
        };
        let reason = format!("{reason}, after {} {word}", options.max_attempts);
        return Disposition::Dead { reason };
    }
    let min = Duration::from_millis(options.min_backoff_ms);
    let max = Duration::from_millis(options.max_backoff_ms);
    Disposition::Retry {
        after: super::backoff(min, max, attempt),
        reason,
    }
}

/// A message as the request that its function sees: `POST /` with the message's body and media type;
/// its headers as HTTP fields where they can be; and fields that name trigger, queue and attempt.
fn request(trigger: &Name, delivery: Delivery) -> Result<http::Request<Body>> {
    let Delivery {
        queue,
        message,
        attempt,
        ..
    } = delivery;
    let Message {
        id,
        body,
        content_type,
        headers,
        ..
    } = message;
    let mut fields = HeaderMap::with_capacity(headers.len() + 5);
    for (name, value) in &headers {
        let name = HeaderName::try_from(name.as_str());
        let value = HeaderValue::try_from(value.as_str());
        if let (Ok(name), Ok(value)) = (name, value)
            && may_pass(&name)
        {
            fields.append(name, value);
        }
    }
    if let Some(content_type) = content_type {
        let value = HeaderValue::try_from(content_type.as_str())
            .map_err(|_| Error::invalid("the message's content type is no field value"))?;
        fields.insert(CONTENT_TYPE, value);
    }
    let about = [
        ("x-sless-trigger", trigger.as_str()),
        ("x-sless-queue", queue.as_str()),
        ("x-sless-message-id", id.as_str()),
    ];
    for (name, value) in about {
        // A queue or an id that is no field value is left out; the message itself is whole.
        if let Ok(value) = HeaderValue::try_from(value) {
            fields.insert(HeaderName::from_static(name), value);
        }
    }
    fields.insert("x-sless-attempt", attempt.into());
    let mut request = http::Request::new(Body::from(body));
    *request.method_mut() = http::Method::POST;
    *request.headers_mut() = fields;
    Ok(request)
}

/// Whether a header of a message may become a field of the request: none that frames the message
/// (RFC 9112, section 6) or is ours.
fn may_pass(name: &HeaderName) -> bool {
    const FRAMING: [&str; 9] = [
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    !FRAMING.contains(&name.as_str()) && !name.as_str().starts_with("x-sless-")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{TriggerId, Uid};

    fn delivery(message: Message) -> Delivery {
        let namespace = Namespace::new("ns").expect("a label");
        let name = Name::new("t").expect("a label");
        let trigger = TriggerId {
            namespace,
            name,
            uid: Uid::random(),
        };
        Delivery {
            trigger,
            queue: "orders".to_owned(),
            message,
            attempt: 2,
        }
    }

    #[test]
    fn delays_double_up_to_the_longest_and_then_it_is_dead() {
        let options = DeliveryOptions {
            max_attempts: 4,
            min_backoff_ms: 100,
            max_backoff_ms: 250,
            ..DeliveryOptions::default()
        };
        let after = |attempt| match dispose(&options, attempt, "no".to_owned()) {
            Disposition::Retry { after, .. } => Some(after.as_millis()),
            _ => None,
        };
        assert_eq!(
            [after(1), after(2), after(3), after(4)],
            [Some(100), Some(200), Some(250), None]
        );
    }

    #[test]
    fn headers_become_fields_save_those_that_frame_or_are_ours() {
        let headers = BTreeMap::from(
            [
                ("ce-id", "1"),
                ("Host", "evil"),
                ("x-sless-attempt", "9"),
                ("not a field", "x"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let message = Message {
            headers,
            id: "m1".to_owned(),
            ..Message::default()
        };
        let trigger = Name::new("t").expect("a label");
        let request = request(&trigger, delivery(message)).expect("a request");
        assert_eq!(request.method(), http::Method::POST);
        assert_eq!(request.headers()["ce-id"], "1");
        assert_eq!(request.headers()["x-sless-attempt"], "2");
        assert_eq!(request.headers()["x-sless-message-id"], "m1");
        assert!(!request.headers().contains_key("host"));
    }
}
