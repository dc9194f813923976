data "sless_trigger" "nightly" {
  name = "nightly"
}

output "next_fire" {
  value = data.sless_trigger.nightly.next_fire
}
