package httphandler_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lockstep-scheduler/lockstep/jobs/httphandler"
)

// echoes starts a server that answers each request with what answer makes of its path and query, byte for
// byte, and closes the connection.
func echoes(t *testing.T, answer func(target string) string) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer conn.Close()
				request, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body)
				_, _ = io.WriteString(conn, answer(request.RequestURI))
			})
		}
	})
	t.Cleanup(served.Wait)
	t.Cleanup(func() { listener.Close() })
	return "http://" + listener.Addr().String()
}

// A server may say what it was asked for wherever it likes: nothing of that shows.
func TestWhatTheURLHasInSecretIsNotRepeated(t *testing.T) {
	const path, query = "/services/T0CANARY/B0CANARY%2Fx", "token=CANARY%20one&page=1"
	answers := map[string]func(target string) string{
		"reason phrase": func(at string) string { return "HTTP/1.1 404 no " + at + "\r\nContent-Length: 0\r\n\r\n" },
		"redirect": func(at string) string {
			return "HTTP/1.1 302 Found\r\nLocation: " + at + "/\r\nContent-Length: 0\r\n\r\n"
		},
		"redirect to another": func(at string) string {
			return "HTTP/1.1 302 Found\r\nLocation: https://CANARY@elsewhere.example" + at + "\r\nContent-Length: 0\r\n\r\n"
		},
		"redirect that cannot be read": func(at string) string {
			return "HTTP/1.1 302 Found\r\nLocation: http://[" + at + "\r\nContent-Length: 0\r\n\r\n"
		},
		"status": func(at string) string { return "HTTP/1.1 " + at + "\r\n\r\n" },
		"no HTTP": func(at string) string {
			return "what is " + at + "\r\n\r\n"
		},
		"header": func(at string) string { return "HTTP/1.1 200 OK\r\n" + at + "\r\n\r\n" },
		"answer": func(at string) string { return sized("refused: " + at) },
		"its parts": func(string) string {
			return sized(`{"error": "no team T0CANARY, no B0CANARY\/x, no B0CANARY%2Fx, no token CANARY one or CANARY%20one"}`)
		},
		"slashes of JSON": func(at string) string { return sized(strings.ReplaceAll(at, "/", `\/`)) },
		"HTML":            func(at string) string { return sized(strings.ReplaceAll(at, "&", "&amp;")) },
		"end of 64 KiB": func(at string) string {
			return sized(strings.Repeat("x", httphandler.MaxOutput-20) + at + strings.Repeat("y", 200))
		},
		"beyond 64 KiB, made shorter": func(at string) string { return sized(strings.Repeat(at+" ", 3000)) },
		"broken off": func(at string) string {
			return "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + at[:len(at)-2]
		},
	}
	for where, answer := range answers {
		at := echoes(t, answer)
		out, err := run(t, httphandler.Request{URL: at + path + "?" + query, SecretPath: true}, task)
		if said := fmt.Sprintf("%v\n%s", err, out); strings.Contains(said, "CANARY") {
			t.Errorf("%s: %.2000s", where, said)
		} else if !strings.Contains(said, "…") && !strings.Contains(said, "[cut here") {
			t.Errorf("%s: the test shows nothing: %.300s", where, said)
		}
		shown, err := run(t, httphandler.Request{URL: at + path + "?" + query}, task)
		if said := fmt.Sprintf("%v\n%s", err, shown); strings.Contains(said, "CANARY%20") || strings.Contains(said, "CANARY one") || strings.Contains(said, "page=1") {
			t.Errorf("%s: the query of an http job: %.2000s", where, said)
		}
		if len(out) > httphandler.MaxOutput {
			t.Errorf("%s: %d bytes of output", where, len(out))
		}
	}
	_, err := run(t, httphandler.Request{URL: echoes(t, answers["redirect to another"]) + path, SecretPath: true}, task)
	if err == nil || !strings.Contains(err.Error(), `302 Found to "https://elsewhere.example"; redirects`) {
		t.Errorf("got %v", err)
	}
	// What is no secret stays as it is.
	out, err := run(t, httphandler.Request{URL: echoes(t, answers["answer"]) + "/mail", Timeout: 20 * time.Second}, task)
	if err != nil || out != "refused: /mail" {
		t.Errorf("got %q, %v", out, err)
	}
}

// A server may also say how it was asked: what stands in the headers is as secret as the query.
func TestWhatHeadersHaveInSecretIsNotRepeated(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("amy:CANARY pass"))
	headers := map[string]string{
		"X-Key": "CANARYkey", "authorization": "Bearer CANARY.bearer/x", "Proxy-Authorization": "Basic " + basic,
		"Cookie": `a=CANARYa; b="CANARYb"`, "Content-Type": "text/innocent", "Accept": "text/harmless", "X-Short": "short",
	}
	for _, said := range []string{
		"CANARYkey", "Bearer CANARY.bearer/x", "CANARY.bearer/x", `CANARY.bearer\/x`, "canary.bearer%2fx", basic,
		url.QueryEscape(basic), "amy:CANARY pass", "CANARY pass", "CANARY+pass", "CANARYa", "CANARYb",
	} {
		at := echoes(t, func(string) string {
			return fmt.Sprintf("HTTP/1.1 500 no <%s>\r\nContent-Length: %d\r\n\r\nno <%s>", said, len(said)+5, said)
		})
		out, err := run(t, httphandler.Request{URL: at, Headers: headers}, task)
		if err == nil || !strings.Contains(err.Error(), "500 no <…>") || out != "no <…>" {
			t.Errorf("%s: %v\n%s", said, err, out)
		}
	}
	const harmless = "text/innocent text/harmless short lockstep"
	if out, err := run(t, httphandler.Request{URL: echoes(t, func(string) string { return sized(harmless) }), Headers: headers}, task); err != nil || out != harmless {
		t.Errorf("got %q, %v", out, err)
	}
}

// However a server writes a secret, it does not show.
func TestSecretsAreHiddenInEveryEscape(t *testing.T) {
	marshal := func(text string) string {
		b, _ := json.Marshal(text) // strings always have a form
		return strings.Trim(string(b), `"`)
	}
	quoted := func(text string) string { return strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `"`, `\"`) }
	lower := func(text string) string { return strings.ToLower(url.QueryEscape(text)) }
	ways := map[string]func(string) string{
		"plain": func(text string) string { return text }, "query": url.QueryEscape, "path": url.PathEscape, "lower query": lower,
		"HTML": html.EscapeString, "named HTML": func(text string) string { return strings.ReplaceAll(html.EscapeString(text), "&#34;", "&quot;") },
		"JSON": quoted, "JSON of Go": marshal, "JSON with slashes": func(text string) string { return strings.ReplaceAll(quoted(text), "/", `\/`) },
		"every character": func(text string) string {
			var all strings.Builder
			for _, r := range text {
				fmt.Fprintf(&all, `\u%04X`, r)
			}
			return all.String()
		},
		"%q": func(text string) string { return strings.Trim(fmt.Sprintf("%q", text), `"`) }, "capitals": func(text string) string { return strings.ReplaceAll(strings.ToUpper(text), "Ä", "ä") },
		"HTML of a URL": func(text string) string { return html.EscapeString("x=" + url.QueryEscape(text))[2:] },
		"JSON of HTML":  func(text string) string { return marshal(html.EscapeString(text)) },
		"URL of a URL":  func(text string) string { return url.QueryEscape(url.QueryEscape(text)) },
	}
	const query = "sig=CANARYa/bCANARY%2Bc==&pw=CANARY%20one%20two&q=CANARY%26x%22y%3Cz&CANARYbare&empty-CANARY=&uml=CANARY%c3%A4&x=1"
	const path = "/hooks/CANARY~seg@2"
	for _, secret := range []string{
		"CANARYa/bCANARY+c==", "CANARYa/bCANARY%2Bc==", "CANARY one two", "CANARY%20one%20two", `CANARY&x"y<z`, "CANARY%26x%22y%3Cz",
		"CANARYbare", "empty-CANARY", "CANARYä", "CANARY~seg@2",
	} {
		for name, way := range ways {
			said := way(secret)
			out, err := run(t, httphandler.Request{URL: echoes(t, func(string) string { return sized("[" + said + "]") }) + path + "?" + query, SecretPath: true}, task)
			if err != nil || out != "[…]" {
				t.Errorf("%s: %s: got %q, %v", name, said, out, err)
			}
		}
	}
	const innocent = "100% of %zz and &nothing; or &canary; \\ \\u12 ein Kanari 1 \\x & %"
	if out, err := run(t, httphandler.Request{URL: echoes(t, func(string) string { return sized(innocent) }) + path + "?" + query, SecretPath: true}, task); err != nil || out != innocent {
		t.Errorf("got %q, %v", out, err)
	}
}

// Parts of a secret are hidden from six characters on, in capitals and small letters; whole paths and queries from two
// on, as they are. At most three escapes are around each other.
func TestHowLongSecretsAre(t *testing.T) {
	for _, c := range []struct{ path, query, header, said, shown string }{
		{header: "abcde", said: "abcde", shown: "abcde"},
		{header: "abcdef", said: "<abcdef ABCDEF>", shown: "<… …>"},
		{header: "abcdef", said: "abcdef at the beginning", shown: "… at the beginning"},
		{header: "abcde\xc3", said: `<abcde\u00e9>`, shown: "<…>"},
		{query: "a", said: "a", shown: "a"},
		{query: "ab", said: "<ab AB>", shown: "<… AB>"},
		{query: "k=abcde", said: "<k=abcde abcde>", shown: "<… abcde>"},
		{query: "k=abcdef", said: "<k=abcdef abcdef>", shown: "<… …>"},
		{query: "abcdef&k=", said: "<abcdef&k= abcdef k=>", shown: "<… … k=>"},
		{path: "/", said: "<//>", shown: "<//>"},
		{path: "//", said: "<//>", shown: "<//>"},
		{path: "/x", query: "zz", said: "</x>", shown: "<…>"},
		{query: "k=a+b%2Bc+d", said: "<a+b%2Bc+d a b+c d A+B%2bC%20D>", shown: "<… … …>"},
		{path: "/x", said: "</x /X>", shown: "<… /X>"},
		{path: "/abcde/abcdef", said: "<abcde abcdef>", shown: "<abcde …>"},
		{path: "/abcdef", header: "bcdefg", said: "</abcdefg>", shown: "<…>"},
		{header: "abcdef", said: "<%252561bcdef %25252561bcdef>", shown: "<… %25252561bcdef>"},
		{header: "%2525252541bcdef", said: "<%2541bcdef %41bcdef>", shown: "<… %41bcdef>"},
	} {
		at := echoes(t, func(string) string { return sized(c.said) })
		r := httphandler.Request{URL: at + c.path, SecretPath: true}
		if c.query != "" {
			r.URL += "?" + c.query
		}
		if c.header != "" {
			r.Headers = map[string]string{"X-Key": c.header}
		}
		if out, err := run(t, r, task); err != nil || out != c.shown {
			t.Errorf("%+v: got %q, %v", c, out, err)
		}
	}
}

// A secret that lies across the end of what is kept, or of what is read, shows no part of itself; nor does one that
// a broken connection cut.
func TestLongSecretsAtTheEnd(t *testing.T) {
	secret := strings.Repeat("CANARY&", 100)
	shows := func(out string) bool { return strings.Contains(out, "CANARY") || strings.Contains(out, `\u00`) }
	request := httphandler.Request{Headers: map[string]string{"X-Key": secret}}
	var every strings.Builder
	for _, r := range secret {
		fmt.Fprintf(&every, `\u%04x`, r)
	}
	for name, said := range map[string]string{"plain": secret, "every character": every.String(), "HTML": html.EscapeString(secret), "JSON": strings.ReplaceAll(secret, "&", `\u0026`)} {
		for before := httphandler.MaxOutput - 2*len(said); before < httphandler.MaxOutput+100; before += 97 {
			text := strings.Repeat("x", before) + said + strings.Repeat("y", httphandler.MaxOutput)
			request.URL = echoes(t, func(string) string { return sized(text) })
			out, err := run(t, request, task)
			if err != nil || shows(out) || len(out) > httphandler.MaxOutput {
				t.Fatalf("%s behind %d: %v, %d bytes that end with %q", name, before, err, len(out), out[max(0, len(out)-200):])
			}
		}
		for part := 6; part < len(said); part += 97 {
			request.URL = echoes(t, func(string) string {
				return "HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + strings.Repeat("x", 9999) + said[:part]
			})
			out, err := run(t, request, task)
			if err == nil || shows(out) || !strings.Contains(out, "xxx") {
				t.Errorf("%s cut at %d: %v, %d bytes that end with %q", name, part, err, len(out), out[max(0, len(out)-200):])
			}
		}
	}
}

// Of a short secret that is escaped and cut no part shows, either.
func TestShortSecretsAtTheEnd(t *testing.T) {
	const secret = "%61%62%63%64%65"
	at := echoes(t, func(string) string {
		return "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhere: " + secret[:len(secret)-1]
	})
	out, err := run(t, httphandler.Request{URL: at, Headers: map[string]string{"X-Key": secret}}, task)
	if err == nil || strings.Contains(out, "%61") {
		t.Errorf("got %q, %v", out, err)
	}
}

// What is shown is cut between characters, and what has none is cut all the same.
func TestAnswersAreCutBetweenCharacters(t *testing.T) {
	const mark = "\n[cut here: the answer is longer than 64 KiB]\n"
	for what, c := range map[string]struct {
		answer, query string
		want          int
	}{
		"characters":   {answer: "x" + strings.Repeat("é", httphandler.MaxOutput), want: httphandler.MaxOutput - 1},
		"none":         {answer: strings.Repeat("\x80", 2*httphandler.MaxOutput), want: httphandler.MaxOutput - 3},
		"made longer":  {answer: strings.Repeat("ab ", httphandler.MaxOutput/3), query: "?ab", want: httphandler.MaxOutput - 2},
		"not too long": {answer: strings.Repeat("ab ", httphandler.MaxOutput/3), want: httphandler.MaxOutput / 3 * 3},
	} {
		out, err := run(t, httphandler.Request{URL: echoes(t, func(string) string { return sized(c.answer) }) + c.query}, task)
		if err != nil || len(out) != c.want || strings.HasSuffix(out, mark) != (what != "not too long") || what != "none" && !utf8.ValidString(out) {
			t.Errorf("%s: %d bytes, want %d, that end with %q, %v", what, len(out), c.want, out[max(0, len(out)-60):], err)
		}
	}
}

// Long answers that are nearly full of secrets cost no time to speak of.
func TestHidingIsQuick(t *testing.T) {
	query := strings.Repeat("a", 4000) + "&k=" + strings.Repeat("%61", 1000) + "b&l=" + strings.Repeat("ab", 900)
	for name, text := range map[string]string{
		"one letter": strings.Repeat("a", 2*httphandler.MaxOutput), "escapes": strings.Repeat("%61", httphandler.MaxOutput),
		"ampersands": strings.Repeat("&", 2*httphandler.MaxOutput), "backslashes": strings.Repeat(`\`, 2*httphandler.MaxOutput),
	} {
		at, began := echoes(t, func(string) string { return sized(text) }), time.Now()
		if _, err := run(t, httphandler.Request{URL: at + "?" + query}, task); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(began))
		}
	}
}

func sized(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}
