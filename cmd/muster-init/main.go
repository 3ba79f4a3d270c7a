// Command muster-init is the first process of a machine that boots from the network.
package main

import "muster/internal/environment/firststage"

func main() { firststage.Run() }
