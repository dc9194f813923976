terraform {
  required_providers {
    sless = {
      source = "sless-dev/sless"
    }
  }
}

# SLESS_ENDPOINT and SLESS_API_TOKEN say where and as whom.
provider "sless" {}

variable "schema_version" {
  type    = number
  default = 7
}

resource "sless_function" "migrate" {
  name       = "migrate"
  runtime    = "python3.11"
  source_dir = "${path.module}/migrate"
}

# Another version is another run; the apply waits for it, and fails where it fails.
resource "sless_job" "migrate" {
  name       = "migrate"
  function   = sless_function.migrate.name
  event_json = jsonencode({ to = var.schema_version })
  run_id     = var.schema_version

  wait_timeout_sec = 120
}

output "migrated_to" {
  value = jsondecode(sless_job.migrate.result).version
}
