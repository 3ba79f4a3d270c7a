// The first process of guests that only have to run.
package main

import "time"

func main() {
	for {
		time.Sleep(time.Hour)
	}
}
