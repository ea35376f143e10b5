package exechandler

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
	"github.com/lockstep-scheduler/lockstep/jobs"
)

// maxEnvFile is how many bytes a file of variables may have.
const maxEnvFile = 1 << 20

// readEnvFile reads NAME=value lines. Blank lines and lines that start with # are skipped; a value is the text
// behind the first =, without the quotes if it is quoted. There is no interpolation and no export. Variables
// change what a command does, so package trustedfile must accept the file.
func readEnvFile(file string) (map[string]string, error) {
	read, err := trustedfile.Rule{Limit: maxEnvFile}.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%w: env_file: %w", jobs.ErrInvalid, err)
	}
	env := map[string]string{}
	var problems []error
	number := 0
	for line := range strings.Lines(string(bytes.TrimPrefix(read.Data, []byte("\ufeff")))) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if bare := strings.TrimSpace(line); bare == "" || bare[0] == '#' {
			continue
		}
		name, value, err := parseLine(line)
		if err == nil && loads(name) {
			err = fmt.Errorf("%s makes programs load other code; set it in env if that is meant", name)
		}
		if _, twice := env[name]; err == nil && twice {
			err = fmt.Errorf("%s is given twice", name)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%w: env_file: %s:%d: %w", jobs.ErrInvalid, file, number, err))
			continue
		}
		env[name] = value
	}
	return env, errors.Join(problems...)
}

func parseLine(line string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, "=")
	if !ok {
		return "", "", errors.New("there is no =; write NAME=value")
	}
	if quote := strings.IndexAny(value, `"'`); quote == 0 {
		if len(value) < 2 || value[len(value)-1] != value[0] {
			return "", "", fmt.Errorf("the value of %.80q has an opening quote but no closing one", name)
		}
		value = value[1 : len(value)-1]
	}
	return name, value, checkVariable(name, value)
}
