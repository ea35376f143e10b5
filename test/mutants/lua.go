package mutants

import (
	"fmt"
	"strings"
)

// luaChange is a mutant of a script: text replaces what is between start and end.
type luaChange struct {
	function   string // "script" outside of all
	what       string
	start, end int
	text       string
	line       int
}

// luaChanges are the mutants of a script. A script that cannot be parsed is an error: no line is left out.
func luaChanges(text string) (found []luaChange, err error) {
	p := &luaReader{text: text, function: "script"}
	if p.words, err = luaWords(text); err != nil {
		return nil, err
	}
	defer func() {
		if wrong, is := recover().(luaError); is {
			err = fmt.Errorf("line %d: %s", wrong.line, wrong.text)
		}
	}()
	p.block()
	if p.is("") {
		return p.found, nil
	}
	return nil, fmt.Errorf("line %d: an end of nothing", p.here().line)
}

type luaWord struct {
	text       string // of a string the whole literal; "" at the end
	kind       byte   // 'n': a name or a keyword, 'v': a literal, 's': a sign
	start, end int
	line       int
}

type luaError struct {
	line int
	text string
}

func luaWords(text string) ([]luaWord, error) {
	var words []luaWord
	line := 1
	in := func(c byte, more string) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(more, c) >= 0
	}
	for i := 0; i < len(text); {
		start, kind := i, byte('s')
		switch c := text[i]; {
		case c == '\n':
			line++
			fallthrough
		case c == ' ' || c == '\t' || c == '\r':
			i++
			continue
		case strings.HasPrefix(text[i:], "--[["), strings.HasPrefix(text[i:], "[["):
			return nil, fmt.Errorf("line %d: long brackets are not read", line)
		case strings.HasPrefix(text[i:], "--"):
			for i < len(text) && text[i] != '\n' {
				i++
			}
			continue
		case c == '\'' || c == '"':
			kind = 'v'
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if i++; i > len(text) {
				return nil, fmt.Errorf("line %d: a string without end", line)
			}
		case c >= '0' && c <= '9':
			for kind = 'v'; i < len(text) && in(text[i], "."); i++ {
			}
		case in(c, "_"):
			for kind = 'n'; i < len(text) && in(text[i], "_"); i++ {
			}
		default:
			i++
			for _, sign := range []string{"...", "..", "==", "~=", "<=", ">="} {
				if strings.HasPrefix(text[start:], sign) {
					i = start + len(sign)
					break
				}
			}
		}
		words = append(words, luaWord{text[start:i], kind, start, i, line})
	}
	return append(words, luaWord{start: len(text), end: len(text), line: line}), nil
}

// luaReader parses Lua 5.1 by recursive descent, and notes mutants.
type luaReader struct {
	text     string
	words    []luaWord
	next     int
	function string
	found    []luaChange
}

func (p *luaReader) here() luaWord { return p.words[p.next] }

func (p *luaReader) is(texts ...string) bool {
	for _, text := range texts {
		if w := p.here(); w.kind != 'v' && w.text == text {
			return true
		}
	}
	return false
}

// take steps over the word if it is there.
func (p *luaReader) take(text string) bool {
	is := p.is(text)
	if is {
		p.next++
	}
	return is
}

func (p *luaReader) must(text string) {
	if !p.take(text) {
		panic(luaError{p.here().line, fmt.Sprintf("%q, and not %q", p.here().text, text)})
	}
}

// since is from a word up to the last one that was read.
func (p *luaReader) since(first int) (start, end int) {
	return p.words[first].start, p.words[p.next-1].end
}

// note adds a mutant of the text between start and end, which may be within the replaced text.
func (p *luaReader) note(sort string, start, end, from, to int, text string) {
	about := strings.Join(strings.Fields(p.text[start:end]), " ")
	if len(about) > 90 {
		about = about[:90] + "…"
	}
	line := 1 + strings.Count(p.text[:start], "\n")
	p.found = append(p.found, luaChange{p.function, sort + ": " + about, from, to, text, line})
}

// leaveOut keeps the removed text: some tests read the scripts.
func (p *luaReader) leaveOut(start, end int) {
	p.note("left out", start, end, start, end, "if false then "+p.text[start:end]+" end")
}

func (p *luaReader) block() {
	for !p.is("end", "else", "elseif", "until") && p.here().text != "" {
		p.statement()
	}
}

func (p *luaReader) statement() {
	switch {
	case p.take(";"), p.take("break"):
	case p.take("if"):
		p.condition(true)
		p.must("then")
		p.block()
		for p.take("elseif") {
			p.condition(true)
			p.must("then")
			p.block()
		}
		if p.take("else") {
			p.block()
		}
		p.must("end")
	case p.take("while"):
		p.condition(false)
		p.must("do")
		p.block()
		p.must("end")
	case p.take("repeat"):
		p.block()
		p.must("until")
		p.expression(0)
	case p.take("for"):
		for !p.is("in", "=") {
			p.next++
		}
		p.next++
		p.list()
		p.must("do")
		p.block()
		p.must("end")
	case p.take("do"):
		p.block()
		p.must("end")
	case p.take("function"):
		p.body()
	case p.take("return"):
		if !p.is("end", "else", "elseif", "until", ";") && p.here().text != "" {
			p.list()
		}
	case p.take("local"):
		if p.take("function") {
			p.body()
			return
		}
		for p.next++; p.take(","); p.next++ {
		}
		if p.take("=") {
			p.list()
		}
	default:
		first := p.next
		for p.operand(); p.take(","); p.operand() {
		}
		if p.take("=") {
			p.list()
		}
		p.leaveOut(p.since(first))
	}
}

// body is a function from its name on; it may have none.
func (p *luaReader) body() {
	outside := p.function
	if w := p.here(); w.kind == 'n' {
		p.function = w.text
		p.next++
	}
	for !p.take(")") {
		p.next++
	}
	p.block()
	p.must("end")
	p.function = outside
}

func (p *luaReader) list() {
	for p.expression(0); p.take(","); p.expression(0) {
	}
}

// condition is forced as a whole, but for one that is always true.
func (p *luaReader) condition(both bool) {
	first := p.next
	p.expression(0)
	start, end := p.since(first)
	text := p.text[start:end]
	p.note("never", start, end, start, end, "false and ("+text+")")
	if both {
		p.note("always", start, end, start, end, "true or ("+text+")")
	}
}

// luaTies are the signs between operands, from the loosest to the closest.
var luaTies = [][]string{{"or"}, {"and"}, {"==", "~=", "<", "<=", ">", ">="}, {".."}, {"+", "-"}, {"*", "/", "%"}, {"^"}}

// wrongs replace a comparison.
var wrongs = map[string]string{"==": "~=", "~=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}

// expression reads one whose operands are tied no more loosely than that.
func (p *luaReader) expression(ties int) {
	if ties == len(luaTies) {
		p.operand()
		return
	}
	first := p.next
	starts, ends := []int{p.here().start}, []int{}
	p.expression(ties + 1)
	ends = append(ends, p.words[p.next-1].end)
	for p.is(luaTies[ties]...) {
		tie := p.here()
		p.next++
		starts = append(starts, p.here().start)
		p.expression(ties + 1)
		ends = append(ends, p.words[p.next-1].end)
		if wrong := wrongs[tie.text]; wrong != "" {
			start, end := p.since(first)
			p.note("taken for "+wrong, start, end, tie.start, tie.end, wrong)
		}
	}
	if ties > 1 || len(starts) == 1 {
		return
	}
	for i, start := range starts {
		from, to := start, ends[i]
		if i == 0 {
			to = starts[1]
		} else {
			from = ends[i-1]
		}
		p.note("without "+luaTies[ties][0], start, ends[i], from, to, "")
	}
}

// operand is a value with what is called, indexed or taken of it.
func (p *luaReader) operand() {
	first := p.next
	switch {
	case p.take("not"), p.take("-"), p.take("#"):
		p.operand()
		return
	case p.take("function"):
		p.body()
		return
	case p.take("{"):
		p.table()
		return
	case p.take("("):
		p.expression(0)
		p.must(")")
	case p.here().kind == 's' && !p.is("..."), p.here().text == "":
		panic(luaError{p.here().line, fmt.Sprintf("%q where a value should be", p.here().text)})
	default:
		p.next++
	}
	for {
		switch {
		case p.take("."), p.take(":"):
			p.next++
		case p.take("["):
			p.expression(0)
			p.must("]")
		case p.take("("):
			start, end := p.since(first)
			p.arguments(strings.TrimSuffix(p.text[start:end], "("))
		default:
			return
		}
	}
}

// arguments are those of a call. An HSET of several fields may miss each, and so may the larger of two.
func (p *luaReader) arguments(of string) {
	var starts, ends []int
	for !p.take(")") {
		starts = append(starts, p.here().start)
		p.expression(0)
		ends = append(ends, p.words[p.next-1].end)
		if !p.is(")") {
			p.must(",")
		}
	}
	if (of == "math.max" || of == "math.min") && len(starts) == 2 {
		p.note("without argument", starts[0], ends[0], starts[0], starts[1], "")
		p.note("without argument", starts[1], ends[1], ends[0], ends[1], "")
	}
	if of != "redis.call" || len(starts) < 6 || p.text[starts[0]:ends[0]] != "'HSET'" {
		return
	}
	for i := 2; i+1 < len(starts); i += 2 {
		p.note("without field", starts[i], ends[i+1], ends[i-1], ends[i+1], "")
	}
}

func (p *luaReader) table() {
	for !p.take("}") {
		if p.here().kind == 'n' && p.words[p.next+1].text == "=" {
			p.next += 2
		} else if p.take("[") {
			p.expression(0)
			p.must("]")
			p.must("=")
		}
		p.expression(0)
		if !p.take(",") && !p.take(";") && !p.is("}") {
			p.must("}")
		}
	}
}
