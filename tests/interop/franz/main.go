// Command franz is a franz-go client for interop tests: `franz SERVERS NAME FIRST_MS` prints what it saw,
// and `franz copy SERVERS TRANSACTIONAL_ID` copies a topic in transactions.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	if os.Args[1] == "copy" {
		runCopier(context.Background(), strings.Split(os.Args[2], ","), os.Args[3])
		return
	}
	beginMs := must(strconv.ParseInt(os.Args[3], 10, 64))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	fmt.Println(string(must(json.Marshal(runScript(ctx, os.Args[1], os.Args[2], beginMs)))))
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func until(condition func() bool) {
	for !condition() {
		time.Sleep(10 * time.Millisecond)
	}
}
