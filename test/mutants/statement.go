package mutants

// This file is compiled twice: here, and into package database/sql of a build with mutants. So it
// imports strings alone.

import "strings"

// term is a part of an SQL statement that may be removed: an operand of AND or OR, or an assignment of SET.
type term struct {
	start, end int
	kind       byte // 'a': of AND, 'o': of OR, 's': of SET
}

// without is the statement without the term. It stays in the text, so that the arguments still fit.
func (t term) without(statement string) string {
	text := statement[t.start:t.end]
	switch t.kind {
	case 'a':
		text = "(" + text + " OR 1=1)"
	case 'o':
		text = "(" + text + " AND 1=0)"
	case 's':
		column, value, _ := strings.Cut(text, "=")
		text = column + "=CASE WHEN 1=1 THEN " + strings.TrimSpace(column) + " ELSE " + value + " END"
	}
	return hintless(statement[:t.start] + text + statement[t.end:])
}

// hintless removes the index that SQLite must use: without a term it may be unable to use it, and would refuse
// the statement.
func hintless(statement string) string {
	for {
		before, after, found := strings.Cut(statement, " INDEXED BY ")
		if !found {
			return statement
		}
		_, rest, _ := strings.Cut(after, " ")
		statement = before + " " + rest
	}
}

// terms finds the terms of a statement, those of its subqueries too.
func terms(statement string) []term {
	s := &scan{text: statement}
	s.words = lex(statement)
	if len(s.words) > 0 && s.words[0].text == "SET" { // of a connection
		return nil
	}
	for s.next < len(s.words) {
		s.clause(len(statement))
	}
	return s.found
}

type word struct {
	text       string // in capitals
	start, end int
}

func lex(text string) []word {
	var words []word
	letter := func(c byte) bool {
		return c == '_' || c == '.' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	for i := 0; i < len(text); {
		start := i
		switch c := text[i]; {
		case c == '\'' || c == '"' || c == '`':
			for i++; i < len(text) && text[i] != c; i++ {
			}
			i++
		case letter(c):
			for i < len(text) && letter(text[i]) {
				i++
			}
		case c == ' ' || c == '\n' || c == '\t':
			i++
			continue
		default:
			i++
		}
		i = min(i, len(text))
		words = append(words, word{strings.ToUpper(text[start:i]), start, i})
	}
	return words
}

type scan struct {
	text  string
	words []word
	next  int
	found []term
}

// clause reads up to the bracket that closes it, or to the end.
func (s *scan) clause(end int) {
	for s.next < len(s.words) {
		w := s.words[s.next]
		switch {
		case w.text == ")":
			s.next++
			return
		case w.text == "(":
			s.next++
			s.clause(end)
		case w.text == "WHERE":
			s.next++
			s.condition()
		case w.text == "SET", w.text == "UPDATE" && s.next > 0 && s.words[s.next-1].text == "KEY":
			s.next++
			s.assignments()
		default:
			s.next++
		}
	}
}

// ends are the words that end a condition or a list of assignments.
func ends(w string) bool {
	switch w {
	case ")", "ORDER", "GROUP", "LIMIT", "FOR", "LOCK", "UNION", "HAVING", "ON", "FROM", "WHERE", "RETURNING", "WHEN", "THEN", "ELSE", "END", ",":
		return true
	}
	return false
}

// condition reads operands of AND and OR up to what ends the condition, which stays.
func (s *scan) condition() {
	var operands []term
	var joined []string // AND or OR before each operand but the first
	start, last := -1, 0
	closeOperand := func() {
		if start >= 0 && last > start {
			operands = append(operands, term{start: start, end: last})
		}
		start = -1
	}
	for s.next < len(s.words) {
		w := s.words[s.next]
		if ends(w.text) {
			break
		}
		switch w.text {
		case "AND", "OR":
			closeOperand()
			joined = append(joined, w.text)
			s.next++
			continue
		case "CASE":
			start, last = first(start, w.start), s.skipCase()
			continue
		case "(":
			start, last = first(start, w.start), s.bracket()
			continue
		}
		start, last = first(start, w.start), w.end
		s.next++
	}
	closeOperand()
	for i, o := range operands {
		// AND binds more tightly than OR: an operand of both counts as one of AND.
		o.kind = 'a'
		or := i > 0 && i-1 < len(joined) && joined[i-1] == "OR" || i < len(joined) && joined[i] == "OR"
		and := i > 0 && i-1 < len(joined) && joined[i-1] == "AND" || i < len(joined) && joined[i] == "AND"
		if or && !and {
			o.kind = 'o'
		}
		s.found = append(s.found, o)
	}
}

func first(start, here int) int {
	if start < 0 {
		return here
	}
	return start
}

// bracket reads a bracket inside a condition and returns where it ends: a subquery, a condition of its own, or
// a list of values.
func (s *scan) bracket() int {
	open := s.next
	depth, logic := 0, false
	at := open
	for ; at < len(s.words); at++ {
		switch s.words[at].text {
		case "(":
			depth++
		case ")":
			depth--
		case "AND", "OR":
			logic = logic || depth == 1
		}
		if depth == 0 {
			break
		}
	}
	if at == len(s.words) {
		at--
	}
	inner := ""
	if open+1 < len(s.words) {
		inner = s.words[open+1].text
	}
	s.next = open + 1
	switch {
	case inner == "SELECT":
		s.clause(s.words[at].end)
	case logic:
		s.condition()
	default:
		for s.next < at { // a value may be a subquery
			if s.words[s.next].text == "(" {
				s.bracket()
				continue
			}
			s.next++
		}
	}
	s.next = at + 1
	return s.words[at].end
}

func (s *scan) skipCase() int {
	depth := 0
	for s.next < len(s.words) {
		w := s.words[s.next]
		s.next++
		switch w.text {
		case "CASE":
			depth++
		case "END":
			if depth--; depth == 0 {
				return w.end
			}
		}
	}
	return len(s.text)
}

// assignments reads a list of "column=value" up to what ends it, which stays.
func (s *scan) assignments() {
	start, last, depth := -1, 0, 0
	closeOne := func() {
		if start >= 0 {
			s.found = append(s.found, term{start, last, 's'})
		}
		start = -1
	}
	for s.next < len(s.words) {
		w := s.words[s.next]
		if depth == 0 && w.text == "CASE" {
			start, last = first(start, w.start), s.skipCase()
			continue
		}
		switch {
		case w.text == "(":
			depth++
		case w.text == ")" && depth > 0:
			depth--
		case depth == 0 && w.text == ",":
			closeOne()
			s.next++
			continue
		case depth == 0 && ends(w.text):
			closeOne()
			return
		}
		start, last = first(start, w.start), w.end
		s.next++
	}
	closeOne()
}

// shape is SQL as people would write it, without what differs from call to call: how many values a list has, and
// which rows are exceptions of a CASE.
func shape(text string) string {
	var b strings.Builder
	words := lex(text)
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.text == "CASE" {
			depth := 0
			for ; i < len(words); i++ {
				if words[i].text == "CASE" {
					depth++
				}
				if words[i].text == "END" {
					if depth--; depth == 0 {
						break
					}
				}
			}
			b.WriteString("?")
			continue
		}
		raw := text[w.start:w.end]
		if b.Len() > 0 && i > 0 && text[words[i-1].end:w.start] != "" && raw != ")" && words[i-1].text != "(" {
			b.WriteByte(' ')
		}
		b.WriteString(raw)
	}
	s := strings.ReplaceAll(b.String(), "lockstep_", "")
	for _, list := range [][2]string{{"?,?", "?"}, {"(?),(?)", "(?)"}} {
		for strings.Contains(s, list[0]) {
			s = strings.ReplaceAll(s, list[0], list[1])
		}
	}
	return once(strings.ReplaceAll(s, "VALUES ", ""))
}

// once says "(a) OR (a)" as "(a)".
func once(s string) string {
	const or = " OR ("
	for at := 0; ; {
		i := strings.Index(s[at:], or)
		if i < 0 {
			return s
		}
		at += i
		end := strings.IndexByte(s[at:], ')')
		if end < 0 {
			return s
		}
		if operand := s[at+len(" OR ") : at+end+1]; strings.HasSuffix(s[:at], operand) {
			s = s[:at] + s[at+end+1:]
		} else {
			at += len(or)
		}
	}
}

// about names what a statement does, and to which table.
func about(statement string) string {
	words := lex(statement)
	if len(words) == 0 {
		return ""
	}
	for i, w := range words[:len(words)-1] {
		if w.text == "FROM" || w.text == "INTO" || w.text == "UPDATE" {
			next := words[i+1]
			return words[0].text + " " + strings.TrimPrefix(strings.Trim(statement[next.start:next.end], "`\""), "lockstep_")
		}
	}
	return words[0].text
}
