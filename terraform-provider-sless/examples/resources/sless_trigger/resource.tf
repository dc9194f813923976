resource "sless_trigger" "nightly" {
  name      = "nightly"
  type      = "cron"
  function  = sless_function.report.name
  schedule  = "0 3 * * *"
  time_zone = "Europe/Berlin"
}

resource "sless_trigger" "uploads" {
  name     = "uploads"
  type     = "event"
  function = sless_function.thumbnailer.name
  queue    = "uploads"

  delivery = {
    max_attempts = 3
    in_flight    = 4
  }
}
