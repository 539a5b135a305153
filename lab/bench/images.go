package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/tierml/tierml/apps/input"
)

// The generated images: their number, size and classes are those of MNIST's test images.
const (
	imageSide, imagePixels       = 28, 28 * 28
	imageClasses, imageExamples  = 10, 10_000
	imageShapes                  = 3  // per class
	strokeSteps                  = 45 // of the walk that draws a shape
	imageMargin, imageShift      = 7, 3
	imageFaint, strokesOfAnother = 0.3, 0.35
)

// picture is an image's pixels, from 0 to 1.
type picture [imageSide][imageSide]float64

// generateImages writes a LIBSVM file of images like handwriting: each class has some shapes, drawn by a walk with a
// brush, which appear shifted, with uneven ink, and with a faint piece of another class's shape across them. No plane
// separates the classes, but the loss of linear models falls for many passes.
func generateImages(path string) error {
	r := rand.New(rand.NewPCG(8, 8))
	var shapes [imageClasses * imageShapes]picture
	for i := range shapes {
		shapes[i] = drawShape(r)
	}
	return writeImages(path, func(write func(class int, p *picture)) {
		for range imageExamples {
			class := r.IntN(imageClasses)
			var p picture
			p.add(r, &shapes[class*imageShapes+r.IntN(imageShapes)], 1)
			p.add(r, &shapes[r.IntN(len(shapes))], strokesOfAnother)
			write(class, &p)
		}
	})
}

// drawShape draws a walk with a brush of three by three pixels.
func drawShape(r *rand.Rand) (p picture) {
	inside := func(x int) int { return min(max(x, imageMargin), imageSide-1-imageMargin) }
	x, y := inside(r.IntN(imageSide)), inside(r.IntN(imageSide))
	dx, dy := 1, 0
	for range strokeSteps {
		for i := range 9 {
			p[y+i/3-1][x+i%3-1] = 1
		}
		if r.IntN(4) == 0 {
			dx, dy = r.IntN(3)-1, r.IntN(3)-1
		}
		x, y = inside(x+dx), inside(y+dy)
	}
	return p
}

// add draws a shape, shifted, over a picture.
func (p *picture) add(r *rand.Rand, shape *picture, ink float64) {
	dx, dy := r.IntN(2*imageShift+1)-imageShift, r.IntN(2*imageShift+1)-imageShift
	for y := imageShift; y < imageSide-imageShift; y++ {
		for x := imageShift; x < imageSide-imageShift; x++ {
			if shape[y][x] > 0 {
				at := &p[y+dy][x+dx]
				*at = max(*at, ink*(imageFaint+(1-imageFaint)*r.Float64()))
			}
		}
	}
}

func writeImages(path string, each func(write func(class int, p *picture))) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	each(func(class int, p *picture) {
		fmt.Fprint(out, class)
		for i := range imagePixels {
			if v := p[i/imageSide][i%imageSide]; v > 0 {
				fmt.Fprintf(out, " %d:%.3f", i+1, v)
			}
		}
		fmt.Fprintln(out)
	})
	return out.Flush()
}

// imagesFromIDX writes the images of an IDX file, with the labels next to it, as a LIBSVM file.
func imagesFromIDX(images, path string) error {
	folder, name := filepath.Split(images)
	labels := filepath.Join(folder, strings.Replace(name, "images-idx3", "labels-idx1", 1))
	read := func(name string) (input.IDX, error) {
		file, err := os.Open(name)
		if err != nil {
			return input.IDX{}, err
		}
		defer file.Close()
		return input.ReadIDX(name, file)
	}
	pixels, err := read(images)
	if err != nil {
		return err
	}
	classes, err := read(labels)
	if err != nil {
		return err
	}
	if len(pixels.Data) != len(classes.Data)*imagePixels {
		return fmt.Errorf("%s does not have %d images of %d pixels", images, len(classes.Data), imagePixels)
	}
	return writeImages(path, func(write func(class int, p *picture)) {
		for i, class := range classes.Data {
			var p picture
			for j, v := range pixels.Data[i*imagePixels : (i+1)*imagePixels] {
				p[j/imageSide][j%imageSide] = float64(v) / 255
			}
			write(int(class), &p)
		}
	})
}
