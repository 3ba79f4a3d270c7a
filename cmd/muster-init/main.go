// Command muster-init is the first process of a machine that boots from the network.
package main

import "muster/internal/boot/firststage"

func main() { firststage.Run() }
