out1 out2: in1 \
 in2
out1: in3
