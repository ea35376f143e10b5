package deploy

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/test/program"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// The Redis of the compose file starts by its own command, asks for the password, keeps nothing, and
// passes its own health check only then.
func TestComposeRedis(t *testing.T) {
	servers.Need(t, "redis-server", "redis-cli")
	secrets := makeSecrets(t)
	var compose struct{ Services map[string]yaml.Node }
	if err := yaml.Unmarshal([]byte(readFile(t, "../../deploy/compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	var redis struct {
		Command     []string
		Healthcheck struct{ Test []string }
	}
	node := compose.Services["redis"]
	if err := node.Decode(&redis); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(servers.FreeAddress(t))
	here := strings.NewReplacer("$$", "$", "/run/secrets/", secrets+"/", "/tmp/redis.conf", t.TempDir()+"/redis.conf",
		"redis-cli ping", "redis-cli -p "+port+" ping")
	script := here.Replace(redis.Command[len(redis.Command)-1]) + " --port " + port + " --bind 127.0.0.1 --dir " + t.TempDir()
	check := func() error {
		return exec.Command("sh", "-c", here.Replace(redis.Healthcheck.Test[1])).Run()
	}
	if check() == nil {
		t.Error("the health check succeeds without a server")
	}
	server := program.Start(t, exec.Command("sh", "-c", script))
	program.Within(t, 20*time.Second, "Redis is healthy", func() bool { return check() == nil })
	ask := func(password string, args ...string) string {
		cmd := exec.Command("redis-cli", append([]string{"-p", port}, args...)...)
		cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+password)
		out, _ := cmd.CombinedOutput() // what it says is looked at
		return string(out)
	}
	if out := ask("", "ping"); !strings.Contains(out, "NOAUTH") {
		t.Errorf("without a password: %s", out)
	}
	password := strings.TrimSpace(readFile(t, secrets+"/redis_password"))
	for key, want := range map[string]string{"save": "", "appendonly": "no", "maxmemory-policy": "noeviction"} {
		if out := ask(password, "config", "get", key); strings.TrimSpace(out) != strings.TrimSpace(key+"\n"+want) {
			t.Errorf("%s", out)
		}
	}
	line := readFile(t, "/proc/"+strconv.Itoa(server.Cmd.Process.Pid)+"/cmdline")
	if strings.Contains(line, password) || !strings.Contains(line, "redis-server") {
		t.Errorf("the command line is %q", line)
	}
}
