package shapes_test

import (
	"fmt"

	"github.com/tierml/tierml/market/shapes"
)

func ExampleGPUOf() {
	gpu := shapes.GPUOf("p3.2xlarge")
	fmt.Println(gpu.Name, gpu.Count)
	// Output: V100 1
}
