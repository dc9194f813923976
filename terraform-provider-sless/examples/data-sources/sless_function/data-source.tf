data "sless_function" "hello" {
  name = "hello"
}

output "url" {
  value = data.sless_function.hello.url
}
