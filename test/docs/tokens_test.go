package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-scheduler/lockstep/config"
)

var cutSum = regexp.MustCompile(`"([0-9a-f]*)…"`)

// The file of tokens on the page is valid, except for its shortened sums.
func TestTokensOfThePage(t *testing.T) {
	const page = "docs/access.md"
	all := blocks(t, page)
	i := slices.IndexFunc(all, func(b block) bool { return b.language == "yaml" && strings.Contains(b.body, "sha256:") })
	if i < 0 {
		t.Fatalf("%s shows no file of tokens", page)
	}
	text := cutSum.ReplaceAllStringFunc(all[i].body, func(sum string) string {
		return `"` + (cutSum.FindStringSubmatch(sum)[1] + strings.Repeat("0", 64))[:64] + `"`
	})
	if list, err := config.ParseTokens(all[i].at(), []byte(text)); err != nil || len(list) < 2 {
		t.Errorf("%d tokens, %v", len(list), err)
	}
}
