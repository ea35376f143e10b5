package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
)

// fingerprinted is how much of an error's line counts, in bytes.
const fingerprinted = 512

// Fingerprint names how a task failed, or was lost, for good: 16 hex digits that are the same for two tasks with the same job, kind,
// reason code, exit code and [NormalError]. It is "" for a task in any other state. Of a lost task the error does not count: it did
// not end the attempt.
//
// It is a function of the task alone, and of no clock, replica or configuration. A later version may normalize errors in another way; then
// what failed before keeps the fingerprint that it got.
func Fingerprint(t Task) string {
	if t.State != StateFailed && t.State != StateLost {
		return ""
	}
	exit, failure := "", ""
	if t.ExitCode != nil {
		exit = strconv.Itoa(*t.ExitCode)
	}
	if t.State == StateFailed {
		failure = NormalError(t.Error)
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{t.Job, t.Kind, string(t.ReasonCode), exit, failure}, "\n")))
	return hex.EncodeToString(sum[:8])
}

// NormalError is the line of an error that says what happened, without what differs from one time to the next:
//
//   - the line is the first one that is not blank, or the last one if that begins a Python traceback; 512 bytes of it at most
//   - what is in quotes ("…", '…' or `…`) becomes "?"
//   - UUIDs, e-mail addresses, addresses of IPv6, hexadecimal numbers of 8 digits or more, and words that begin with a digit (4711, 1.5s,
//     10MB, 0x7f) become #, as do words with digits in several places, or with any and 16 letters or more, as ids have; of others only
//     the digits do: order17 becomes order#
//   - numbers that only . , : or - separates, as those of times and of addresses of IPv4, become one #
//   - blanks in a row become one
func NormalError(text string) string {
	line := decisiveLine(text)
	if len(line) > fingerprinted {
		line = strings.ToValidUTF8(line[:fingerprinted], "")
	}
	line = withoutQuoted(line)
	line = uniqueWords.ReplaceAllString(line, "#")
	line = words.ReplaceAllStringFunc(line, normalWord)
	line = numbers.ReplaceAllString(line, "#")
	return strings.Join(strings.Fields(line), " ")
}

// decisiveLine is the line of an error that says what happened.
func decisiveLine(text string) string {
	text = strings.TrimSpace(text)
	first, _, more := strings.Cut(text, "\n")
	if more && strings.HasPrefix(first, "Traceback (most recent call last)") {
		return text[strings.LastIndexByte(text, '\n')+1:]
	}
	return first
}

// withoutQuoted replaces what is in quotes. An apostrophe within or behind a word opens none.
func withoutQuoted(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		c := line[i]
		if c != '"' && c != '\'' && c != '`' || i > 0 && inWord(line[i-1]) {
			b.WriteByte(c)
			continue
		}
		end := closing(line, i)
		if end < 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteString(`"?"`)
		i = end
	}
	return b.String()
}

// closing is where the quote that opens at i closes, or -1.
func closing(line string, i int) int {
	for j := i + 1; j < len(line); j++ {
		switch {
		case line[j] == '\\' && line[i] != '`':
			j++
		case line[j] == line[i] && (j+1 == len(line) || !inWord(line[j+1])):
			return j
		}
	}
	return -1
}

func inWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

var (
	uniqueWords = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b` +
		`|[\w.+%-]+@[\w-]+(\.[\w-]+)+` +
		`|\b[0-9a-f]{1,4}(::?[0-9a-f]{1,4}){3,7}\b|\b[0-9a-f]{1,4}(:[0-9a-f]{1,4})*::([0-9a-f]{1,4}(:[0-9a-f]{1,4})*)?|::[0-9a-f]{1,4}\b`)
	words      = regexp.MustCompile(`[\w\x{80}-\x{10FFFF}]*[0-9][\w\x{80}-\x{10FFFF}]*`) // those with digits
	hexWord    = regexp.MustCompile(`^[0-9a-fA-F]{8,}$`)
	someDigits = regexp.MustCompile(`[0-9]+`)
	numbers    = regexp.MustCompile(`#([.,:-]+#)+`)
	idLength   = 16
)

// normalWord is what a word with digits becomes.
func normalWord(word string) string {
	places := someDigits.FindAllStringIndex(word, 2)
	if places[0][0] == 0 || len(places) > 1 || len(word) >= idLength || hexWord.MatchString(word) {
		return "#"
	}
	return word[:places[0][0]] + "#" + word[places[0][1]:]
}
