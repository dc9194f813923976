//go:build tools

// Package tools names the program that up builds, so that go.mod keeps its version and those of what it needs.
package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
