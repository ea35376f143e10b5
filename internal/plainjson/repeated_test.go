package plainjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRepeated(t *testing.T) {
	many := func(last string) string {
		var b strings.Builder
		for i := range 3 * searched {
			fmt.Fprintf(&b, `"k%d":0,`, i)
		}
		return "{" + b.String() + last + "}"
	}
	for text, want := range map[string]string{
		`{"a":1,"a":2}`:                                   "a",
		`{ "a" : 1 , "b" : [ ] , "a" : { } }`:             "a",
		`{"a":1,"\u0061":2}`:                              "a",
		`{"a\"":1,"b":"\\","a\u0022":2}`:                  `a"`,
		`[1,{"a":{"b":[0,{"c":null,"d":"","c":1}]}}]`:     "1/a/b/1/c",
		`{"a":{"b":1},"c":{"b":1},"b":[{"b":1},{"b":1}]}`: "",
		`{"a":{"x":1,"y":2},"x":1,"y":2,"a":3}`:           "a",
		`{"a":1,"A":2,"":3,"a ":4}`:                       "",
		`{"":1,"":2}`:                                     "",
		`"a"`:                                             "",
		` -1.5e+3 `:                                       "",
		`[]`:                                              "",
		`{}`:                                              "",
		`[ true , false,null , "\"" ,[[ ]],{"a":"}"} ]`: "",
		many(`"x":1`):                  "",
		many(`"k0":1`):                 "k0",
		many(`"k17":1`):                "k17",
		many(`"k40":{}`):               "k40",
		many(`"o":` + many(`"k47":0`)): "o/k47",
	} {
		got := Repeated([]byte(text))
		if strings.Join(got, "/") != want || (got == nil) != (want == "" && text != `{"":1,"":2}`) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// FuzzRepeated: it finds what a decoder of tokens finds, and reads any valid text to its end.
func FuzzRepeated(f *testing.F) {
	for _, text := range []string{`{"a":1,"\u0061":[]}`, `[{"a":{}},{"a":{"b":1,"b":2}}]`, ` "\\" `, `{"a":"\"","b":[1,2e3,null ,true]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || !utf8.Valid(text) {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if got, want := Repeated(text), repeatedToken(dec, nil); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	})
}

func repeatedToken(dec *json.Decoder, at []string) []string {
	within := func(part string) []string { return append(at[:len(at):len(at)], part) }
	switch open, _ := dec.Token(); open {
	case json.Delim('['):
		for i := 0; dec.More(); i++ {
			if found := repeatedToken(dec, within(strconv.Itoa(i))); found != nil {
				return found
			}
		}
	case json.Delim('{'):
		seen := map[string]bool{}
		for dec.More() {
			token, _ := dec.Token()
			key, _ := token.(string)
			if seen[key] {
				return within(key)
			}
			seen[key] = true
			if found := repeatedToken(dec, within(key)); found != nil {
				return found
			}
		}
	default:
		return nil
	}
	_, _ = dec.Token() // its end
	return nil
}

func BenchmarkRepeated(b *testing.B) {
	var large strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&large, `"key-%d":"value-%d",`, i, i)
	}
	for name, text := range map[string]string{
		"100B":  `{"to":"ann@example.com","subject":"Your receipt","order":{"id":12345,"lines":3,"total":"12.50"},"b":1}`,
		"250KB": "{" + large.String() + `"end":1}`,
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(text)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				Repeated(text)
			}
		})
	}
}
