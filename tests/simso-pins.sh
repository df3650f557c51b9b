# Sourced: SimSo and what builds it. It is of 2016, it and its SimPy come as sources. Python 3.9 to 3.12.
build=(setuptools==75.8.0 wheel==0.45.1)
pins=(simso==0.8.5 SimPy==2.3.1 numpy==1.26.4)
