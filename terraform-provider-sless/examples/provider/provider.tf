terraform {
  required_providers {
    sless = {
      source = "sless-dev/sless"
    }
  }
}

provider "sless" {
  endpoint = "https://sless.example.com"
  token    = var.sless_token
}

variable "sless_token" {
  type      = string
  sensitive = true
}
