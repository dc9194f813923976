//! The roles in processes of their own, two of each.

use super::{
    super::{
        flow::{Flow, Language},
        place::{Backend, Place},
    },
    fleet::Fleet,
};

#[tokio::test]
#[ignore = "needs S3, RabbitMQ, PostgreSQL and Kubernetes: testing/*/up"]
async fn a_function_lives_among_processes_apart() {
    let place = Place::new(Backend::Kubernetes).await;
    let roles = ["operator", "operator", "dispatcher", "dispatcher", "api"];
    let fleet = Fleet::start(&place, &roles).await;
    let machine = place.machine(place.process("api", &[])).await;
    let flow = Flow {
        place: &place,
        machine: &machine,
        language: Language::Python,
        together: false,
        by_cluster: false,
    };
    flow.run().await;
    machine.stop().await;
    fleet.stop().await;
}
