package mutants

import (
	"slices"
	"strings"
	"testing"
)

func TestLuaChanges(t *testing.T) {
	for script, want := range map[string][]string{
		"if a and not b or c == 1 then return {'x', d or 2} end": {
			"never: if false and (a and not b or c == 1) then return {'x', d or 2} end",
			"always: if true or (a and not b or c == 1) then return {'x', d or 2} end",
			"without and: if not b or c == 1 then return {'x', d or 2} end",
			"without and: if a or c == 1 then return {'x', d or 2} end",
			"without or: if c == 1 then return {'x', d or 2} end",
			"without or: if a and not b then return {'x', d or 2} end",
			"taken for ~=: if a and not b or c ~= 1 then return {'x', d or 2} end",
			"without or: if a and not b or c == 1 then return {'x', 2} end",
			"without or: if a and not b or c == 1 then return {'x', d} end",
		},
		"return math.max(a + 1, b)": {"without argument: return math.max(b)", "without argument: return math.max(a + 1)"},
		"-- if x then\nlocal function f(n, ...) t[n] = n - 1 > #t return n end\nf(1)": {
			"left out: -- if x then\nlocal function f(n, ...) if false then t[n] = n - 1 > #t end return n end\nf(1)",
			"taken for >=: -- if x then\nlocal function f(n, ...) t[n] = n - 1 >= #t return n end\nf(1)",
			"left out: -- if x then\nlocal function f(n, ...) t[n] = n - 1 > #t return n end\nif false then f(1) end",
		},
		"while true do local a, b = redis.call('HSET', k, 'and', 1, \"it's\", 2) end": {
			"never: while false and (true) do local a, b = redis.call('HSET', k, 'and', 1, \"it's\", 2) end",
			"without field: while true do local a, b = redis.call('HSET', k, \"it's\", 2) end",
			"without field: while true do local a, b = redis.call('HSET', k, 'and', 1) end",
		},
		"for i, v in ipairs({1, x = 2}) do if v < 1 then i, v = v, i elseif v ~= '' then redis.call('DEL', k) else break end end": {
			"never: for i, v in ipairs({1, x = 2}) do if false and (v < 1) then i, v = v, i elseif v ~= '' then redis.call('DEL', k) else break end end",
			"always: for i, v in ipairs({1, x = 2}) do if true or (v < 1) then i, v = v, i elseif v ~= '' then redis.call('DEL', k) else break end end",
			"taken for <=: for i, v in ipairs({1, x = 2}) do if v <= 1 then i, v = v, i elseif v ~= '' then redis.call('DEL', k) else break end end",
			"left out: for i, v in ipairs({1, x = 2}) do if v < 1 then if false then i, v = v, i end elseif v ~= '' then redis.call('DEL', k) else break end end",
			"never: for i, v in ipairs({1, x = 2}) do if v < 1 then i, v = v, i elseif false and (v ~= '') then redis.call('DEL', k) else break end end",
			"always: for i, v in ipairs({1, x = 2}) do if v < 1 then i, v = v, i elseif true or (v ~= '') then redis.call('DEL', k) else break end end",
			"taken for ==: for i, v in ipairs({1, x = 2}) do if v < 1 then i, v = v, i elseif v == '' then redis.call('DEL', k) else break end end",
			"left out: for i, v in ipairs({1, x = 2}) do if v < 1 then i, v = v, i elseif v ~= '' then if false then redis.call('DEL', k) end else break end end",
		},
	} {
		changes, err := luaChanges(script)
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		var got []string
		for _, c := range changes {
			what, _, _ := strings.Cut(c.what, ": ")
			got = append(got, what+": "+strings.TrimSpace(script[:c.start]+c.text+script[c.end:]))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", script, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
}

// A script that cannot be parsed is refused, not left out.
func TestLuaThatCannotBeRead(t *testing.T) {
	for _, script := range []string{"if a then", "x = ", "return {1", "end", "x = 'a", "return [[x]]", "if a == then f() end"} {
		if found, err := luaChanges(script); err == nil {
			t.Errorf("%q: %+v", script, found)
		}
	}
}
