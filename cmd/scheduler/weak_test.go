package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/api/wire"
	"github.com/lockstep-scheduler/lockstep/test/await"
	"github.com/lockstep-scheduler/lockstep/test/servers"
)

// doctor and readiness report tls.insecure.
func TestWeakConnectionsAreShown(t *testing.T) {
	t.Parallel()
	srv := servers.NewMySQL(t)
	dsn := srv.DSNAs("root", "", "store") + "?tls=preferred"
	all, _ := runDoctor(t, t.TempDir(), "store: {driver: mysql, dsn: \""+dsn+"\", tls: {insecure: true}}")
	wantFinding(t, all, "warning configuration: insecure: store: tls=preferred: ")
	all, _ = runDoctor(t, t.TempDir(), `lock: {driver: zookeeper, zookeeper: {servers: ["zk.invalid:2181"], insecure: true}}`)
	wantFinding(t, all, "warning configuration: insecure: lock: every client that reaches the servers can take, free and change the locks (zookeeper.insecure, without auth_file)")

	path := filepath.Join(t.TempDir(), "weak.yaml")
	put(t, path, "version: 1\nstore: {driver: mysql, dsn: \""+dsn+"\", tls: {insecure: true}}\njobs: {a: {command: [sh]}}\n")
	ctx, cancel := context.WithCancel(t.Context())
	log, ended := &logged{}, make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"serve", "-c", path, "--listen", "127.0.0.1:0"}, strings.NewReader(""), log, log)
	}()
	await.Until(t, "it listens", func() bool { return log.server() != "" })
	if ready := get(t, log.server()+"/readyz"); !strings.Contains(ready, `"insecure: store: tls=preferred: `) {
		t.Errorf("readiness: %s", ready)
	}
	if !log.has("insecure") || !log.has("tls=preferred") {
		t.Error("the log says nothing of it")
	}
	cancel()
	if code := <-ended; code != exitFine {
		t.Errorf("exit code %d", code)
	}

	conditions := withWeak(func() []wire.Condition { return []wire.Condition{{Name: "access", Ready: true}} }, []string{"store: a", "lock: b"})
	for range 2 {
		got := conditions()
		if len(got) != 2 || got[1].Name != "connections" || !got[1].Ready || got[1].Detail != "insecure: store: a; lock: b" {
			t.Errorf("%+v", got)
		}
	}
	const text = "version: 1\nstore: {driver: mysql, dsn: \"u:p@tcp(127.0.0.1:1)/a?tls=skip-verify\"}\n"
	put(t, path, text)
	if got := call(t, nil, "serve", "-c", path); got.code != exitUsage || !strings.Contains(got.stderr, "store.dsn: has tls=skip-verify") {
		t.Errorf("%+v", got)
	}
}
