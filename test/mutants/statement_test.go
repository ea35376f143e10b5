package mutants

import (
	"slices"
	"testing"
)

func TestTerms(t *testing.T) {
	for statement, want := range map[string][]string{
		"UPDATE lockstep_tasks SET cancel=?, state=COALESCE(?, 2) WHERE id=? AND token=? AND state+0=2": {
			"s cancel=?", "s state=COALESCE(?, 2)", "a id=?", "a token=?", "a state+0=2"},
		"SELECT id FROM t WHERE state=0 AND (run_at<=? OR run_at=created_at) AND (job<>'' OR kind NOT IN (?,?)) ORDER BY a, b LIMIT ?": {
			"o run_at<=?", "o run_at=created_at", "o job<>''", "o kind NOT IN (?,?)",
			"a state=0", "a (run_at<=? OR run_at=created_at)", "a (job<>'' OR kind NOT IN (?,?))"},
		"UPDATE t SET m=CASE id WHEN ? THEN ? ELSE ? END, n=n+1 WHERE m<CASE id WHEN ? THEN ? ELSE ? END AND EXISTS (SELECT 1 FROM s WHERE s.id=? AND s.dead=0) AND (id, token) IN (VALUES (?,?),(?,?))": {
			"s m=CASE id WHEN ? THEN ? ELSE ? END", "s n=n+1", "a s.id=?", "a s.dead=0",
			"a m<CASE id WHEN ? THEN ? ELSE ? END", "a EXISTS (SELECT 1 FROM s WHERE s.id=? AND s.dead=0)", "a (id, token) IN (VALUES (?,?),(?,?))"},
		"INSERT INTO t (a) VALUES (?) ON DUPLICATE KEY UPDATE a=VALUES(a), b=1":   {"s a=VALUES(a)", "s b=1"},
		"INSERT INTO t (a) VALUES (?) ON CONFLICT (a) DO UPDATE SET a=excluded.a": {"s a=excluded.a"},
		"SELECT 'a AND b' FROM t WHERE x='it AND is' FOR UPDATE SKIP LOCKED":      {"a x='it AND is'"},
		"DELETE FROM t WHERE b=? OR c=?":                                          {"o b=?", "o c=?"},
		"SET SESSION wait_timeout = 5, SESSION innodb_lock_wait_timeout = 2":      nil,
		"BEGIN IMMEDIATE": nil,
	} {
		var got []string
		for _, f := range terms(statement) {
			got = append(got, string(f.kind)+" "+statement[f.start:f.end])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", statement, got, want)
		}
	}
}

func TestWithout(t *testing.T) {
	const statement = "UPDATE t INDEXED BY i SET a=?, b=2 WHERE c=? AND (d=1 OR e=2)"
	want := []string{
		"UPDATE t SET a=CASE WHEN 1=1 THEN a ELSE ? END, b=2 WHERE c=? AND (d=1 OR e=2)",
		"UPDATE t SET a=?, b=CASE WHEN 1=1 THEN b ELSE 2 END WHERE c=? AND (d=1 OR e=2)",
		"UPDATE t SET a=?, b=2 WHERE (c=? OR 1=1) AND (d=1 OR e=2)",
		"UPDATE t SET a=?, b=2 WHERE c=? AND ((d=1 AND 1=0) OR e=2)",
		"UPDATE t SET a=?, b=2 WHERE c=? AND (d=1 OR (e=2 AND 1=0))",
		"UPDATE t SET a=?, b=2 WHERE c=? AND ((d=1 OR e=2) OR 1=1)",
	}
	var got []string
	for _, f := range terms(statement) {
		got = append(got, f.without(statement))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestShape(t *testing.T) {
	for text, want := range map[string]string{
		"(id, token) IN (VALUES (?,?),(?,?),(?,?))":                              "(id, token) IN ((?))",
		"(id, token) IN ((?,?),(?,?))":                                           "(id, token) IN ((?))",
		"id IN (?,?,?)":                                                          "id IN (?)",
		"reason=CASE id WHEN ? THEN ? WHEN ? THEN ? ELSE ? END":                  "reason=?",
		"((name=? AND token=?) OR (name=? AND token=?) OR (name=? AND token=?))": "((name=? AND token=?))",
		"((a=?) OR (b=?) OR (b=?))":                                              "((a=?) OR (b=?))",
		"EXISTS (SELECT 1 FROM lockstep_sessions s\n WHERE s.id=?)":              "EXISTS (SELECT 1 FROM sessions s WHERE s.id=?)",
	} {
		if got := shape(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
