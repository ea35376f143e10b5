package redislock

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The rights that are asked for are those of the scripts' commands, no more and no less.
func TestLeastRightsAreThoseOfTheScripts(t *testing.T) {
	all := namespaceLua + openLua + renewLua + reassertLua + acquireLua + releaseLua + checkLua + listLua + evictLua + closeLua
	want := []string{"-@all", "+eval", "+evalsha", "+script|exists", "+script|load"}
	for _, m := range regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`).FindAllStringSubmatch(all, -1) {
		want = append(want, "+"+strings.ToLower(m[1]))
	}
	slices.Sort(want)
	var got []string
	for _, rule := range strings.Fields(leastRights) {
		if strings.HasPrefix(rule, "+") || strings.HasPrefix(rule, "-") {
			got = append(got, rule)
		}
	}
	slices.Sort(got)
	page, err := os.ReadFile("../../docs/backends.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "ACL SETUSER lockstep on >choose-one "+leastRights+"\n") {
		t.Error("docs/backends.md has other rights")
	}
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("(-scripts +rights)\n%s", diff)
	}
}
