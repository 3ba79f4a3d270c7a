// The first process of guests that show that they are the same: it counts, under a number that it has drawn at its start.
package main

import (
	"crypto/rand"
	"fmt"
	"time"
)

func main() {
	var number [8]byte
	_, _ = rand.Read(number[:]) // it never fails
	for count := 1; ; count++ {
		fmt.Printf("COUNT %x %d\n", number, count)
		time.Sleep(50 * time.Millisecond)
	}
}
