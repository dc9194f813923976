resource "sless_job" "migrate" {
  name       = "migrate"
  function   = sless_function.migrate.name
  event_json = jsonencode({ to = 7 })
  run_id     = 1 # another number runs it again
}

output "migrated" {
  value = jsondecode(sless_job.migrate.result)
}
