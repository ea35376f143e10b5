//go:build linux

package deploy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/client"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// A replica with each configuration of deploy/ runs on a MySQL and a Redis, with the secrets that
// compose/secrets.sh made: it takes the token and asks for one, speaks TLS where that says so, and is
// found healthy by the image's own command.
func TestStacks(t *testing.T) {
	for name, d := range deployments(t) {
		t.Run(name, func(t *testing.T) {
			token := strings.TrimSpace(readFile(t, filepath.Join(d.secrets, "admin_token")))
			redis := servers.NewRedis(t, "--requirepass", strings.TrimSpace(readFile(t, filepath.Join(d.secrets, "redis_password"))))
			authority := servers.NewAuthority(t)
			pair := authority.Server()
			for file, text := range map[string]string{"store_dsn": servers.MySQL(t), "tls.crt": string(pair.CertPEM), "tls.key": string(pair.KeyPEM)} {
				replaceFile(t, filepath.Join(d.secrets, file), text)
			}
			binary := program.Build(t, "../../cmd/scheduler", static)
			file := filepath.Join(t.TempDir(), "lockstep.yaml")
			text := strings.NewReplacer("redis:6379", redis.Addr, `"/scheduler"`, strconv.Quote(binary)).Replace(d.config)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(binary, "serve", "-c", file, "--listen", "127.0.0.1:0")
			cmd.Env = d.environ
			replica := program.Start(t, cmd)
			url := replica.URL(t)
			if want := map[string]string{"compose": "http", "kubernetes": "https"}[name]; !strings.HasPrefix(url, want+"://") {
				t.Errorf("%s is served at %s", name, url)
			}

			stranger, err := client.New(url, client.Options{TLS: authority.TLS()})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := stranger.Replicas(t.Context(), wire.Page{}); !refused(err, 401) {
				t.Errorf("without a token: %v", err)
			}
			c, err := client.New(url, client.Options{Token: token, TLS: authority.TLS()})
			if err != nil {
				t.Fatal(err)
			}
			replicas, err := c.Replicas(t.Context(), wire.Page{})
			if err != nil || len(replicas.Items) != 1 || name == "kubernetes" && replicas.Items[0].ID != "lockstep-6d4cf56db6-x2x9k" {
				t.Errorf("the replicas are %+v, %v", replicas.Items, err)
			}
			if out := runJob(t, c, "heartbeat", jobs.StateSucceeded); !strings.HasPrefix(out, "scheduler ") {
				t.Errorf("heartbeat wrote %q", out)
			}
			for _, args := range [][]string{{"healthcheck"}, {"healthcheck", "--ready"}} {
				check := exec.Command(binary, args...)
				check.Env = []string{"LOCKSTEP_SERVER=" + url}
				if out, err := check.CombinedOutput(); err != nil {
					t.Errorf("%v: %v\n%s", args, err, out)
				}
			}
		})
	}
}

func refused(err error, status int) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Status == status
}

func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o400)); err != nil {
		t.Fatal(err)
	}
}
