terraform {
  required_providers {
    sless = {
      source = "sless-dev/sless"
    }
  }
}

# SLESS_ENDPOINT and SLESS_API_TOKEN say where and as whom.
provider "sless" {}

resource "sless_function" "report" {
  name       = "report"
  runtime    = "python3.11"
  source_dir = "${path.module}/report"
  timeout    = 300
}

resource "sless_trigger" "every_morning" {
  name      = "every-morning"
  type      = "cron"
  function  = sless_function.report.name
  schedule  = "0 9 * * 1-5"
  time_zone = "Europe/Berlin"
}

resource "sless_function" "resize" {
  name        = "resize"
  runtime     = "nodejs20"
  source_dir  = "${path.module}/resize"
  concurrency = 4
}

resource "sless_trigger" "uploads" {
  name     = "uploads"
  type     = "event"
  function = sless_function.resize.name
  queue    = "uploads"

  delivery = {
    max_attempts = 3
    min_backoff  = "2s"
    in_flight    = 4
  }
}

output "next_report" {
  value = sless_trigger.every_morning.next_fire
}
