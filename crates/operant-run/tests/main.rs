//! Runs: one test program, a module for each topic.

mod doc;
mod onnx;
mod own_environment;
