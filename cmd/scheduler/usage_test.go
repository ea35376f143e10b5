package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A flag without a value, as of a variable that is not set, is wrong usage, whatever the command would do without the flag.
func TestEmptyFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	nowhere := []string{"LOCKSTEP_CONFIG=none/lockstep.yaml", "LOCKSTEP_SERVER=http://127.0.0.1:1"}
	var look func(cmd *cobra.Command)
	seen := map[string]bool{}
	look = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			look(sub)
		}
		if !cmd.Runnable() || cmd.HasSubCommands() {
			return
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		cmd.InheritedFlags() // has them merged
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			seen[cmd.Name()+" "+f.Name] = true
			got := call(t, nowhere, append(slices.Clone(path), "--"+f.Name+"=")...) // what would run has no file
			if may := cmd.CommandPath() == "scheduler locks exec" && f.Name == "name"; may {
				if strings.Contains(got.stderr, "is empty") {
					t.Errorf("%s --%s=: %+v", cmd.CommandPath(), f.Name, got)
				}
				return
			}
			if got.code != exitUsage || !strings.Contains(got.stderr, "--"+f.Name+" ") {
				t.Errorf("%s --%s=: %+v", cmd.CommandPath(), f.Name, got)
			}
		})
	}
	look(newRootCommand(&app{}))
	for _, flag := range []string{"purge until", "retry fingerprint", "update expires-at", "enqueue payload", "enqueue unique-by", "set weight", "set reset", "run force", "list server", "serve id"} {
		if !seen[flag] {
			t.Errorf("%s is none", flag)
		}
	}
	for args, flag := range map[string]string{
		"tasks purge --pool mail --yes --until":        "--until",
		"tasks retry --pool mail --state failed --tag": "--tag",
		"tasks update 1 --priority 5 --payload":        "--payload",
		"tasks enqueue mail --tag a --tag":             "--tag",
	} {
		if got := call(t, nowhere, append(strings.Fields(args), "")...); got.code != exitUsage || !strings.Contains(got.stderr, flag+" is empty; give it a value, or leave it out\n") {
			t.Errorf("%s '': %+v", args, got)
		}
	}
}
