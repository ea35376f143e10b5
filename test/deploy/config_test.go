package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/config"
)

// Every configuration in deploy/ loads, with the secrets where its deployment has them.
func TestConfigurationsLoad(t *testing.T) {
	for name, d := range deployments(t) {
		t.Run(name, func(t *testing.T) {
			c, err := config.LoadBytes(name, []byte(d.config), config.Options{Environ: d.environ})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.Warnings {
				// Containers read secrets as a user of their own, who owns none of them; and /scheduler
				// is there in the image.
				if !strings.Contains(w.Problem, "can be read by others") && !strings.Contains(w.Problem, `"/scheduler" is no program`) {
					t.Errorf("warning: %v", w)
				}
			}
			if tokens, err := config.LoadTokens(c.Server.TokensFile); err != nil || len(tokens) != 1 {
				t.Errorf("tokens: %v, %v", tokens, err)
			}
		})
	}
}

// deployment is a configuration as in its container, with this machine's paths.
type deployment struct {
	config  string
	environ []string
	secrets string // folder
}

func deployments(t *testing.T) map[string]deployment {
	t.Helper()
	secrets := makeSecrets(t)
	compose := readFile(t, "../../deploy/compose/lockstep.yaml")
	var manifest struct{ Data map[string]string }
	if err := yaml.Unmarshal([]byte(readFile(t, "../../deploy/kubernetes/configmap.yaml")), &manifest); err != nil {
		t.Fatal(err)
	}
	return map[string]deployment{
		"compose": {
			config:  strings.ReplaceAll(compose, "/run/secrets/", secrets+"/"),
			environ: os.Environ(), secrets: secrets,
		},
		"kubernetes": {
			config:  strings.NewReplacer("/etc/lockstep/secrets/", secrets+"/", "/etc/lockstep/tls/", secrets+"/").Replace(manifest.Data["lockstep.yaml"]),
			environ: append(os.Environ(), "POD_NAME=lockstep-6d4cf56db6-x2x9k"), secrets: secrets,
		},
	}
}

// makeSecrets runs the command of the compose file, and returns the folder.
func makeSecrets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "secrets.sh")
	if err := os.WriteFile(script, []byte(readFile(t, "../../deploy/compose/secrets.sh")), 0o700); err != nil {
		t.Fatal(err)
	}
	var first string
	for range 2 { // the second time it changes nothing
		if out, err := exec.Command(script).CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("secrets.sh: %v\n%s", err, out)
		}
		all := ""
		for _, name := range []string{"mysql_password", "redis_password", "store_dsn", "admin_token", "tokens"} {
			path := filepath.Join(dir, "secrets", name)
			all += readFile(t, path)
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o444 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		if first != "" && first != all {
			t.Error("secrets.sh replaced what was there")
		}
		first = all
	}
	if info, err := os.Stat(filepath.Join(dir, "secrets")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of secrets is open: %v, %v", info, err)
	}
	return filepath.Join(dir, "secrets")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// No secret is anybody else's: each folder that secrets.sh fills has its own, as long as they should be.
func TestSecretsAreOnesOwn(t *testing.T) {
	one, other := makeSecrets(t), makeSecrets(t)
	for _, name := range []string{"mysql_password", "redis_password", "store_dsn", "admin_token", "tokens"} {
		a, b := readFile(t, filepath.Join(one, name)), readFile(t, filepath.Join(other, name))
		if a == b || len(a) < 64 {
			t.Errorf("%s is %d bytes, the same twice: %v", name, len(a), a == b)
		}
	}
}
