//! Runs: one test program, a module for each topic.

mod c;
mod doc;
mod networks;
mod onnx;
mod own_environment;
