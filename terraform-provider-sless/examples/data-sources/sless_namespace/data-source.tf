data "sless_namespace" "mine" {}

output "namespace" {
  value = data.sless_namespace.mine.name
}
