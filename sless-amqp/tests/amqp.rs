//! The dispatcher against a real broker.

mod amqp {
    mod conformance;
    mod crash;
    mod faults;
    mod letters;
    mod messages;
    mod patience;
    mod subscriptions;
    mod support;
    mod tls;
}
