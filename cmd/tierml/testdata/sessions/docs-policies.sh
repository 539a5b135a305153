#: TYPE tierml run  => tierml run -y 
cp examples/demo.yaml demo.yaml
ln -s examples/data data
