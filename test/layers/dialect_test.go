package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The store supports MySQL and MariaDB, and most test runs have one of them: SQL that only one
// server understands would fail at a user.
var oneSided = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`(?i)\bRETURNING\b`), "MySQL has no RETURNING"},
	{regexp.MustCompile(`(?i)\bFOR\s+SHARE\b`), "MariaDB has no FOR SHARE; both have LOCK IN SHARE MODE"},
	{regexp.MustCompile(`(?i)\)\s*AS\s+new\b`), "MariaDB has no row alias; both have VALUES(column)"},
	{regexp.MustCompile(`(?is)\b(INDEX|KEY)\b[^;()]*\([^)]*\bDESC\b`), "MariaDB before 10.8 ignores DESC in an index"},
	{regexp.MustCompile(`(?i)\bFOR\s+UPDATE\s+OF\b`), "MariaDB has no FOR UPDATE OF"},
	{regexp.MustCompile(`(?i)\bFOR\s+UPDATE\s+WAIT\b`), "MySQL has no FOR UPDATE WAIT; both have innodb_lock_wait_timeout"},
	{regexp.MustCompile(`->>?\s*['"]\$`), "MariaDB has no -> for JSON; both have JSON_EXTRACT"},
	{regexp.MustCompile(`(?i)\b(COLUMN|INDEX|KEY)\s+IF\s+(NOT\s+)?EXISTS\b`), "MySQL has no IF EXISTS for columns and indexes"},
	{regexp.MustCompile(`(?i)\bCREATE\s+SEQUENCE\b|\bNEXTVAL\b`), "MySQL has no sequences"},
	{regexp.MustCompile(`(?i)\bLATERAL\b`), "MariaDB has no LATERAL"},
	{regexp.MustCompile(`(?i)\b(MD5|SHA1?)\s*\(`), "MySQL 9.6 took MD5 and SHA1 out of the server; both have SHA2"},
}

var looksLikeSQL = regexp.MustCompile(`(?i)\b(SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|ALTER|DROP|WHERE|VALUES|CONCAT)\b`)

// Files with sqlite in their name may use any SQL of SQLite.
func TestSQLFitsBothServers(t *testing.T) {
	seen := 0
	check := func(where, statement string) {
		if !looksLikeSQL.MatchString(statement) {
			return
		}
		seen++
		for _, o := range oneSided {
			if hit := o.pattern.FindString(statement); hit != "" {
				t.Errorf("%s: %q: %s", where, hit, o.why)
			}
		}
	}
	for _, name := range files(t, "migrations/mysql", ".sql") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		check(name, comment.ReplaceAllString(string(text), ""))
	}
	for _, dir := range []string{"store", "locks/sqllock", "internal/sqlkit"} {
		for _, name := range files(t, dir, ".sql", ".go") {
			switch {
			case strings.Contains(strings.TrimPrefix(name, "../../"), "sqlite"), strings.HasSuffix(name, "_test.go"):
			case strings.HasSuffix(name, ".sql"):
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				check(name, comment.ReplaceAllString(string(text), ""))
			default:
				for where, text := range literals(t, name) {
					check(where, text)
				}
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d statements seen", seen)
	}
}

var comment = regexp.MustCompile(`(?m)--.*$`)

func TestOneSidedIsRecognised(t *testing.T) {
	for statement, ok := range map[string]bool{
		"INSERT INTO a (b) VALUES (1) RETURNING id":                                  false,
		"SELECT a FROM b FOR\n SHARE":                                                false,
		"INSERT INTO a VALUES (1) AS new ON DUPLICATE KEY UPDATE b = new.b":          false,
		"CREATE INDEX i ON t (a, b DESC)":                                            false,
		"CREATE TABLE t (a INT, KEY k (a DESC))":                                     false,
		"ALTER TABLE t ADD COLUMN IF NOT EXISTS a INT":                               false,
		"SELECT a->>'$.b' FROM t":                                                    false,
		"MD5(CONCAT('a', ?))":                                                        false,
		"SELECT SHA1('a')":                                                           false,
		"SELECT SHA2('a', 256)":                                                      true,
		"CREATE TABLE IF NOT EXISTS t (a INT, KEY k (a))":                            true,
		"SELECT a FROM t FORCE INDEX (k) WHERE b = 1 ORDER BY a DESC LIMIT 1":        true,
		"SELECT a FROM t WHERE b = 1 FOR UPDATE SKIP LOCKED":                         true,
		"INSERT INTO a (b) VALUES (1) ON DUPLICATE KEY UPDATE b = VALUES(b)":         true,
		"SELECT a FROM t LOCK IN SHARE MODE":                                         true,
		"UPDATE t SET a = GREATEST(a, 1) WHERE id IN (SELECT id FROM u) AND new = 1": true,
	} {
		clean := true
		for _, o := range oneSided {
			clean = clean && !o.pattern.MatchString(statement)
		}
		if clean != ok || !looksLikeSQL.MatchString(statement) {
			t.Errorf("%q: fits both should be %v", statement, ok)
		}
	}
}

// files lists the files below dir of the module that end in one of the suffixes.
func files(t *testing.T, dir string, suffixes ...string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		for _, suffix := range suffixes {
			if !entry.IsDir() && strings.HasSuffix(path, suffix) {
				names = append(names, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// literals are the strings of a Go file by position.
func literals(t *testing.T, name string) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				found[set.Position(lit.Pos()).String()] = text
			}
		}
		return true
	})
	return found
}
