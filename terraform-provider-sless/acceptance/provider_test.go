// Package acceptance runs HashiCorp's acceptance harness on the provider's program. Terraform installs it
// from a mirror of files, as from a registry; the harness turns TLS off.
package acceptance

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
)

const version = "0.1.0"

var external = map[string]resource.ExternalProvider{
	"sless": {Source: "test/sless", VersionConstraint: version},
}

// TestMain lays out the mirror and tells Terraform about it.
func TestMain(m *testing.M) {
	if err := mirror(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func mirror() error {
	program, folder := os.Getenv("SLESS_TEST_PROVIDER"), os.Getenv("SLESS_TEST_MIRROR")
	if program == "" || folder == "" {
		return fmt.Errorf("SLESS_TEST_PROVIDER (the program) and SLESS_TEST_MIRROR (an empty folder) must be set")
	}
	place := filepath.Join(folder, "registry.terraform.io", "test", "sless", version, runtime.GOOS+"_"+runtime.GOARCH)
	if err := os.MkdirAll(place, 0o755); err != nil {
		return err
	}
	from, err := os.Open(program)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(place, "terraform-provider-sless_v"+version), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	rc := filepath.Join(folder, "cli.tfrc")
	text := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", folder)
	if err := os.WriteFile(rc, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Setenv("TF_CLI_CONFIG_FILE", rc)
}

func code(t *testing.T, answer string) string {
	t.Helper()
	folder := t.TempDir()
	text := fmt.Sprintf("def handle(event):\n    return %s\n", answer)
	if err := os.WriteFile(filepath.Join(folder, "handler.py"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

func TestFunction(t *testing.T) {
	const address = "sless_function.f"
	one, two := code(t, "1"), code(t, "2")
	config := func(folder, more string) string {
		return fmt.Sprintf("resource \"sless_function\" \"f\" {\n name = \"harness-f\"\n runtime = \"python3.11\"\n source_dir = %q\n%s\n}\n", folder, more)
	}
	value := func(name string, value knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(address, tfjsonpath.New(name), value)
	}
	action := func(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
		return resource.ConfigPlanChecks{
			PreApply:             []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, action)},
			PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
		}
	}
	resource.Test(t, resource.TestCase{
		ExternalProviders: external,
		Steps: []resource.TestStep{
			{
				Config:           config(one, "env = { A = \"1\" }\nidle_seconds = 600\ntimeouts = { create = \"5m\" }"),
				ConfigPlanChecks: action(plancheck.ResourceActionCreate),
				ConfigStateChecks: []statecheck.StateCheck{
					value("phase", knownvalue.StringExact("Ready")),
					value("entrypoint", knownvalue.StringExact("handler.handle")),
					value("timeout", knownvalue.Int64Exact(60)),
					value("env", knownvalue.MapExact(map[string]knownvalue.Check{"A": knownvalue.StringExact("1")})),
					value("replicas", knownvalue.Null()),
					value("max_replicas", knownvalue.Null()),
					value("idle_seconds", knownvalue.Int64Exact(600)),
				},
			},
			{
				ResourceName:                         address,
				ImportState:                          true,
				ImportStateId:                        "harness-f",
				ImportStateVerify:                    true,
				ImportStateVerifyIdentifierAttribute: "name",
				// An import cannot know what only the configuration says; nor does an empty map differ.
				ImportStateVerifyIgnore: []string{
					"source_dir", "filename", "code_hash", "build_timeout_sec", "env_wo_version", "timeouts", "env_sensitive",
				},
			},
			{
				ResourceName:    address,
				ImportState:     true,
				ImportStateId:   "harness-f",
				ImportStateKind: resource.ImportBlockWithID,
			},
			{
				Config:           config(two, "env = { A = \"1\" }"),
				ConfigPlanChecks: action(plancheck.ResourceActionUpdate),
			},
			{
				Config:           config(two, "replicas = 0"),
				ConfigPlanChecks: action(plancheck.ResourceActionUpdate),
				ConfigStateChecks: []statecheck.StateCheck{
					value("phase", knownvalue.StringExact("Stopped")),
					value("env", knownvalue.Null()),
				},
			},
		},
	})
}

func TestTriggerAndJob(t *testing.T) {
	folder := code(t, "event")
	config := func(enabled bool, run int) string {
		return fmt.Sprintf(`
resource "sless_function" "f" {
  name       = "harness-g"
  runtime    = "python3.11"
  source_dir = %q
}
resource "sless_trigger" "t" {
  name     = "harness-t"
  type     = "cron"
  function = sless_function.f.name
  schedule = "0 3 * * *"
  enabled  = %t
  policies = { overlap = "allow" }
}
resource "sless_job" "j" {
  name       = "harness-j"
  function   = sless_function.f.name
  event_json = jsonencode({ run = %d })
  run_id     = %d
}
`, folder, enabled, run, run)
	}
	trigger := func(name string, value knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue("sless_trigger.t", tfjsonpath.New(name), value)
	}
	job := func(name string, value knownvalue.Check) statecheck.StateCheck {
		return statecheck.ExpectKnownValue("sless_job.j", tfjsonpath.New(name), value)
	}
	empty := []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}
	resource.Test(t, resource.TestCase{
		ExternalProviders: external,
		Steps: []resource.TestStep{
			{
				Config:           config(true, 0),
				ConfigPlanChecks: resource.ConfigPlanChecks{PostApplyPostRefresh: empty},
				ConfigStateChecks: []statecheck.StateCheck{
					trigger("active", knownvalue.Bool(true)),
					trigger("next_fire", knownvalue.NotNull()),
					job("phase", knownvalue.StringExact("Skipped")),
					job("result", knownvalue.Null()),
				},
			},
			{
				Config: config(false, 1),
				ConfigPlanChecks: resource.ConfigPlanChecks{
					PreApply: []plancheck.PlanCheck{
						plancheck.ExpectResourceAction("sless_trigger.t", plancheck.ResourceActionUpdate),
						plancheck.ExpectResourceAction("sless_job.j", plancheck.ResourceActionReplace),
					},
					PostApplyPostRefresh: empty,
				},
				ConfigStateChecks: []statecheck.StateCheck{
					trigger("active", knownvalue.Bool(false)),
					job("phase", knownvalue.StringExact("Succeeded")),
					job("result", knownvalue.StringExact(`{"run":1}`)),
				},
			},
			{
				ResourceName:                         "sless_trigger.t",
				ImportState:                          true,
				ImportStateId:                        "harness-t",
				ImportStateVerify:                    true,
				ImportStateVerifyIdentifierAttribute: "name",
				ImportStateVerifyIgnore:              []string{"timeouts"},
			},
			{
				ResourceName:                         "sless_job.j",
				ImportState:                          true,
				ImportStateId:                        "harness-j",
				ImportStateVerify:                    true,
				ImportStateVerifyIdentifierAttribute: "name",
				ImportStateVerifyIgnore:              []string{"timeouts", "wait_timeout_sec"},
			},
		},
	})
}
