terraform {
  required_providers {
    sless = {
      source = "sless-dev/sless"
    }
  }
}

# SLESS_ENDPOINT and SLESS_API_TOKEN say where and as whom.
provider "sless" {}

variable "greeting" {
  type    = string
  default = "Hello"
}

resource "sless_function" "hello" {
  name       = "hello"
  runtime    = "python3.11"
  source_dir = "${path.module}/hello"

  env = {
    GREETING = var.greeting
  }
}

output "url" {
  value = sless_function.hello.url
}
