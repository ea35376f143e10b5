// Says what time it is each time it is asked: wall time and, since the start, monotonic time, in ns.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	began := time.Now()
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), now.Sub(began).Nanoseconds(), time.Since(began).Nanoseconds())
	}
}
