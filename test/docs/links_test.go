package docs

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link     = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\))?)(?:\s+"[^"]*")?\)`)
	heading  = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	explicit = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)
	inLink   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	code     = regexp.MustCompile("`[^`]*`")
)

// Every link of a document to a file or to a heading leads somewhere.
func TestLinks(t *testing.T) {
	anchorsOf := map[string]map[string]bool{}
	found := 0
	for _, file := range markdown(t) {
		for i, line := range prose(t, file) {
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				found++
				target, err := url.Parse(m[1])
				if err != nil {
					t.Errorf("%s:%d: %v", file, i+1, err)
					continue
				}
				if target.Scheme != "" || target.Host != "" {
					continue
				}
				to := file
				if target.Path != "" {
					to = path.Join(path.Dir(file), target.Path)
				}
				if _, err := os.Stat(filepath.Join(root, to)); err != nil || strings.HasPrefix(to, "..") {
					t.Errorf("%s:%d: there is no %s", file, i+1, to)
					continue
				}
				if target.Fragment == "" || !strings.HasSuffix(to, ".md") {
					continue
				}
				if anchorsOf[to] == nil {
					anchorsOf[to] = anchors(t, to)
				}
				if !anchorsOf[to][target.Fragment] {
					t.Errorf("%s:%d: %s has no heading for #%s", file, i+1, to, target.Fragment)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no link was found")
	}
}

// prose returns the lines of a document with those of code blocks and comments emptied.
func prose(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?s)<!--.*?-->`).ReplaceAllStringFunc(string(data), func(comment string) string {
		return strings.Repeat("\n", strings.Count(comment, "\n"))
	})
	lines := strings.Split(text, "\n")
	fence := ""
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch m := opening.FindStringSubmatch(line); {
		case fence == "" && m != nil:
			fence, lines[i] = m[2], ""
		case fence != "":
			if trimmed == fence {
				fence = ""
			}
			lines[i] = ""
		}
	}
	return lines
}

// anchors are the targets of links into the document, as GitHub derives them from headings.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, line := range prose(t, file) {
		for _, m := range explicit.FindAllStringSubmatch(line, -1) {
			known[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		slug := slugOf(m[1])
		for n, base := 1, slug; known[slug]; n++ {
			slug = fmt.Sprintf("%s-%d", base, n)
		}
		known[slug] = true
	}
	return known
}

func slugOf(title string) string {
	title = strings.ReplaceAll(inLink.ReplaceAllString(title, "$1"), "`", "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

func TestSlugOf(t *testing.T) {
	for title, want := range map[string]string{
		"Why locks, if rows decide?":   "why-locks-if-rows-decide",
		"`lock.redis`":                 "lockredis",
		"1. Three guards: lock, row":   "1-three-guards-lock-row",
		"See [this](x.md) – and `a_b`": "see-this--and-a_b",
	} {
		if got := slugOf(title); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
}
