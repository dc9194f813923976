resource "sless_function" "hello" {
  name       = "hello"
  runtime    = "python3.11"
  source_dir = "${path.module}/hello"

  env = {
    GREETING = "Hello"
  }
  env_sensitive = {
    API_KEY = var.api_key
  }

  timeouts = {
    create = "10m"
  }
}
