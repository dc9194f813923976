data "sless_job" "migrate" {
  name = "migrate"
}

output "phase" {
  value = data.sless_job.migrate.phase
}
