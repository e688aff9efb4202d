"""Generic exceptions: what the line that raised them, their caller and their numbers tell."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from tests.explain.test_shapes import told_right
from vlmguard.explain.command import explain

ENV = "/env/lib/python3.10/site-packages/"


def traced(frames: str, error: str) -> str:
    """A traceback of ``frames``: a line each, "path|line|function|source"; ~ is the environment."""
    lines = ["Traceback (most recent call last):"]
    for frame in frames.strip().splitlines():
        path, number, name, source = frame.split("|")
        lines += [f'  File "{path.replace("~", ENV)}", line {number}, in {name}', f"    {source}"]
    return "\n".join([*lines, error]) + "\n"


FED = """~torch/utils/data/_utils/worker.py|308|_worker_loop|data = fetcher.fetch(index)
~torch/utils/data/_utils/fetch.py|51|<listcomp>|data = [self.dataset[idx] for idx in possibly_batched_index]
"""
MODULE = "~torch/nn/modules/module.py|1518|_wrapped_call_impl|return self._call_impl(*args, **kwargs)\n"
NOT_READ = "AttributeError: 'NoneType' object has no attribute 'shape'"

CHANNELS = "RuntimeError: Given groups=1, weight of size [{}], expected input[{}] to have {} channels, but got {} channels instead\n"  # fmt: skip

# thread → (log, class or verdict)
THREADS = {
    "git-cloner/Llama2-chinese#3 a mean over no rows": (traced("/job/utils/train_utils.py|112|train|train_epoch_loss = total_loss / data_set_len", "ZeroDivisionError: float division by zero"), "VG554"),
    "xinntao/Real-ESRGAN#380 no step in an epoch": (traced("~basicsr/train.py|48|create_train_val_dataloader|total_epochs = math.ceil(total_iters / (num_iter_per_epoch))", "ZeroDivisionError: division by zero"), "VG554"),
    "Facico/Chinese-Vicuna#239 an accumulation of 0, rich": (
        "│ /env/lib/python3.8/site-packages/transformers/trainer.py:1659 in     │\n│ _inner_training_loop                                                 │\n│   1658 │   │   │   len_dataloader = len(train_dataloader)                                        │\n"
        "│ ❱ 1659 │   │   │   num_update_steps_per_epoch = len_dataloader // args.gradient_accumulation_st  │\n╰───────────────────────────────────────────────────────╯\nZeroDivisionError: integer division or modulo by zero\n", "VG553"),
    "huggingface/transformers#17350 a stream's length": (traced("~transformers/trainer.py|1627|_inner_training_loop|self.state.epoch = epoch + (step + 1) / steps_in_epoch", "ZeroDivisionError: division by zero"), "unknown"),
    "timesler/facenet-pytorch#136 a loop that never ran, a notebook": (
        "UnboundLocalError                         Traceback (most recent call last)\n<ipython-input-25-efef0e88967e> in <module>()\n---> 16         batch_metrics=metrics, show_running=True, device=device,\n\n/usr/local/lib/python3.6/dist-packages/facenet_pytorch/models/utils/training.py in pass_epoch(model, loss_fn)\n    126         scheduler.step()\n--> 128     loss = loss / (i_batch + 1)\n\nUnboundLocalError: local variable 'i_batch' referenced before assignment\n", "VG554"),
    "ruotianluo/ImageCaptioning.pytorch#35 no loop's counter": (traced("train.py|151|train|cnn_optimizer.zero_grad()", "UnboundLocalError: local variable 'cnn_optimizer' referenced before assignment"), "unknown"),
    "tslgithub/image_class#23 OpenCV gave None": (traced("train.py|55|load_data|_, w, h = img.shape[::-1]", NOT_READ), "VG555"),
    "toandaominh1997/EfficientDet.Pytorch#63 in one line": (f"Height, width, channels = img.shape {NOT_READ}\n", "VG555"),
    "a model's own None": (traced(MODULE + "/job/model/vit.py|40|forward|b = images.shape[0]", NOT_READ), "unknown"),
    "PKU-YuanGroup/MoE-LLaVA#29 no further image": (traced(MODULE + "/job/moellava/model/llava_arch.py|302|prepare_inputs_labels_for_multimodal|cur_image_features = image_features[cur_image_idx].to(self.device)", "IndexError: list index out of range"), "VG510"),
    "CenterTrack#236 a row without a field": (traced(FED + "/job/lib/dataset/generic_dataset.py|269|_load_image_anns|file_name = img_info['file_name']", "KeyError: 'file_name'"), "VG554"),
    "OpenBMB/MiniCPM-V#374 a collator's, quoted": ("[example[\"input_ids\"] for example in examples],\nKeyError: 'input_ids'\n", "VG554"),
    "baichuan-inc/Baichuan2#68 a list where a row is wanted": (traced("/job/fine-tune.py|74|preprocessing|for message in example[\"conversations\"]:", "TypeError: list indices must be integers or slices, not str"), "VG554"),
    "mobulan/IELT#1 weights are no row": (traced("/job/models/IELT.py|93|load_from|np2th(weights[\"embedding/kernel\"], conv=True)", "TypeError: string indices must be integers"), "unknown"),
    "barissayil/SentimentAnalysis#15 keys of a model's answer": (traced(MODULE + "/job/modeling.py|23|forward|cls_reps = reps[:, 0]", "TypeError: string indices must be integers"), "VG570"),
    "shuzhenggao/SG-Trans#11 an argument that is None": (traced("/job/main/train.py|204|set_defaults|train_it = os.path.join(data_dir, args.train_it[i])", "TypeError: 'NoneType' object is not subscriptable"), "VG553"),
    "DocF/multispectral-object-detection#49 something else is": (traced("train.py|509|train_rgb_ir|nc = 1 if opt.single_cls else int(data_dict['nc'])", "TypeError: 'NoneType' object is not subscriptable"), "unknown"),
    "Vchitect/DCM#17 flash-attn gives another number, half a frame": ("DCM/fastvideo/models/flash_attn_no_pad.py\", line 16, in flash_attn_no_pad\nx_unpad, indices, cu_seqlens, max_s, used = unpad_input(    \nValueError: not enough values to unpack (expected 5, got 4) \n", "VG570"),
    "RL-VIG/LibFewShot#95 a script's own": (traced("/job/core/model/skd_model.py|153|set_forward_loss|image, target = batch", "ValueError: too many values to unpack (expected 2)"), "unknown"),
    "llava-rlhf/LLaVA-RLHF#11 two image sizes": ("RuntimeError: The size of tensor a (577) must match the size of tensor b (257) at non-singleton dimension 1\n", "VG518"),
    "yolain/ComfyUI-Easy-Use#773 without a class token": (traced("/job/clip_model.py|179|forward|return embeds + cast_to_input(self.position_embedding.weight, embeds)", "RuntimeError: The size of tensor a (256) must match the size of tensor b (729) at non-singleton dimension 1"), "VG518"),
    "Maelic/SGG-Benchmark#8 two widths": ("RuntimeError: The size of tensor a (200) must match the size of tensor b (512) at non-singleton dimension 1\n", "unknown"),
    "hiyouga/LlamaFactory#321 a packed weight": ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (42x5120 and 1x39321600)\n", "VG577"),
    "CircleRadon/TokenPacker#20 two widths that do not fit": ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (576x1024 and 4096x1024)\n", "unknown"),
    "miraclewkf/multilabel-MXNet#3 a script's own call": (traced("train_multilabel.py|67|train_model|sym, arg_params, args.num_classes, 'flatten0', args.batch_size)", "TypeError: get_fine_tune_model() takes 4 positional arguments but 5 were given"), "unknown"),
    "huggingface/transformers#25191 a class without a forward": ("TypeError: _forward_unimplemented() got an unexpected keyword argument 'input_ids'\n", "unknown"),
    "vllm-project/vllm#8668 a tokenizer's file": (traced("~transformers/models/auto/tokenization_auto.py|671|get_tokenizer_config|result = json.load(reader)\n/usr/lib/python3.10/json/decoder.py|355|raw_decode|raise JSONDecodeError", "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"), "VG541"),
    "om-ai-lab/VLM-R1#264 an assertion alone": ("assert self.img_context_token_id is not None\nAssertionError\n", "VG510"),
    "datawhalechina/self-llm#175 no adapter in the folder": ("ValueError: Can't find 'adapter_config.json' at './output/Index-1.9B-Chat-lora/checkpoint-600'\n", "VG585"),
    "songwsx/RFSong-7993#1 a line of another form": (traced("/job/SSD-YOLO/voc0712.py|120|__init__|img_id, value = line.split()", "ValueError: not enough values to unpack (expected 2, got 1)"), "VG554"),
    "WangKan0128/MPN#3 a batch of other parts": ("File \"train_mpn_no_ca.py\", line 110, in train_model\ninputs, labels, masks, tops, bottoms = data\nValueError: not enough values to unpack (expected 5, got 2)\n", "unknown"),
    "mozilla/TTS#293 a path that nobody gave": (traced("/job/utils/generic_utils.py|22|load_config|with open(config_path, 'r') as f:", "TypeError: expected str, bytes or os.PathLike object, not NoneType"), "VG553"),
    "a tokenizer's own missing file": (traced("~transformers/models/llama/tokenization_llama.py|100|__init__|with open(vocab_file) as f:", "TypeError: expected str, bytes or os.PathLike object, not NoneType"), "unknown"),
    "gabrielegoletto/AMEGO#1 an assertion is its own message": (traced(MODULE + "/hub/models/vision_transformer.py|360|forward|assert h == w == self.image_size", "AssertionError"), "VG518"),
    "THUDM/P-tuning#36 a tuple, in one line": ("loss, logits = output.loss, output.logits AttributeError: 'tuple' object has no attribute 'loss'\n", "VG570"),
    "deepspeedai/DeepSpeed#4597 weights that are not there": ("FileNotFoundError: [Errno 2] No such file or directory: './checkpoints/llava-v1.5-13b-pretrain/mm_projector.bin'\n", "VG541"),
    "haotian-liu/LLaVA#1245 no whole model": ("OSError: ./checkpoints/llava-qwen-4b-finetune-lora/ does not appear to have a file named config.json.\n", "VG541"),
    "a file of the model's own code": ("OSError: OpenGVLab/InternVL2-8B does not appear to have a file named configuration_intern_vit.py.\n", "VG556"),
    "a checkpoint of weights alone": (traced("/job/train.py|88|main|start_epoch = checkpoint['epoch'] + 1", "KeyError: 'epoch'"), "VG550"),
    "a checkpoint of another form": (traced("/job/train.py|80|main|model.load_state_dict(checkpoint['state_dict'])", "KeyError: 'state_dict'"), "VG522"),
    "RoBERTa's table": ("RuntimeError: The expanded size of the tensor (600) must match the existing size (514) at non-singleton dimension 1.  Target sizes: [2, 600].  Tensor sizes: [1, 514]\n", "VG511"),
    "an image that is nested": ("RuntimeError: Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [1, 1, 3, 336, 336]\n", "VG518"),
    "tabtoyou/KoLLaVA#26 a patch for another model": (traced(MODULE + "/job/llava/train/llama_xformers_attn_monkey_patch.py|42|xformers_forward|.view(bsz, q_len, self.num_heads, self.head_dim)", "RuntimeError: shape '[16, 2048, 32, 128]' is invalid for input of size 33554432"), "VG570"),
    "buptchan/scene-classification#1 a class in no table": (traced("/job/dataset.py|48|make_dataset|index = class_to_idx[target]", "KeyError: '2963f9e8361b2b.jpg'"), "VG554"),
    "omarsayed7/Deep-Emotion#13 a table's column, pasted": ("      self.lables = self.csv_file['emotion']\n      indexer = self.columns.get_loc(key)\n      raise KeyError(key) from err\n      KeyError: 'emotion'\n", "VG554"),
    "dfaker/df#2 the first of no files": (traced("/job/utils.py|14|load_images_masked|basePath = os.path.split(image_paths[0])[0]", "IndexError: list index out of range"), "VG554"),
    "Vegetebird/MHFormer#73 the weights of no folder": (traced("main.py|117|<module>|model_path = sorted(glob.glob(os.path.join(opt.previous_dir, '*.pth')))[1]", "IndexError: list index out of range"), "VG550"),
    "perseus784/BvS#5 a script's own list": (traced("/job/utils.py|30|batch_dispatch|choice_count = self.count_buffer[choice_index]", "IndexError: list index out of range"), "unknown"),
    "facebookresearch/deepcluster#61 no optimizer, quoted": ("optimizer.load_state_dict(checkpoint['optimizer']) \nKeyError: 'optimizer'\n", "VG550"),
    "TomHeaven/msba_reid#2 another form of weights": (traced("/job/resnet.py|166|load_pretrain|state_dict = torch.load(model_path)['state_dict']", "KeyError: 'state_dict'"), "VG522"),
    "karpathy/nanochat#532 a batch that does not divide": (traced("/job/scripts/base_train.py|120|<module>|assert total_batch_size % world_tokens_per_fwdbwd == 0", "AssertionError"), "VG594"),
    "jwyang/faster-rcnn.pytorch#458 a box of an annotation": (traced("/job/lib/datasets/pascal_voc.py|242|_load_pascal_annotation|x1 = float(bbox.find('xmin').text) - 1", "ValueError: could not convert string to float: "), "VG554"),
    "ylshaooo#3 a box that is no whole number": (traced("voc_annotation.py|26|convert_annotation|b = (int(xmlbox.find('xmin').text), int(xmlbox.find('ymin').text))", "ValueError: invalid literal for int() with base 10: '45.7'"), "VG554"),
    "open-mmlab/mmsegmentation#799 rows that are not alike": (traced("~torch/utils/data/_utils/fetch.py|47|fetch|return self.collate_fn(data)\n~mmcv/parallel/collate.py|76|collate|transposed = zip(*batch)", "TypeError: zip argument #2 must support iteration"), "VG582"),
    "isaaccorley/deep-aesthetics-pytorch#2 a loss, quoted": ("    loss += F.mse_loss(y_pred, y)\nRuntimeError: The size of tensor a (11) must match the size of tensor b (12) at non-singleton dimension 1\n", "VG597"),
    "KevKibe/African-Whisper#230 a metric that is not there": ("FileNotFoundError: Couldn't find a module script at /content/wer/wer.py. Module 'wer' doesn't exist on the Hugging Face Hub either.\n", "VG587"),
    "gauthierdmn/question_answering#7 a place that the code names": ("batch[4][:, 0].long().to(device),\\\nIndexError: index 0 is out of bounds for dimension 1 with size 0\n", "unknown"),
    "xmindflow/deformableLKA#20 the second of one": (traced("/job/trainer.py|168|trainer_synapse|image = image_batch[1, 0:1, :, :]", "IndexError: index 1 is out of bounds for dimension 0 with size 1"), "unknown"),
    "a label in a table of few": (traced("/job/model.py|60|forward|weight = class_weights[labels]", "IndexError: index 5 is out of bounds for dimension 0 with size 5"), "VG545"),
    "dbolya/yolact#272 a batch that is shared out": (traced("/env/lib/python3/site-packages/torch/nn/parallel/data_parallel.py|148|forward|inputs, kwargs = self.scatter(inputs, kwargs, self.device_ids)\ntrain.py|410|prepare_data|images[cur_idx] = gradinator(images[cur_idx].to(device))", "IndexError: list index out of range"), "unknown"),
    "luuuyi/RefineDet.PyTorch#28 a class in no table, in an old worker": ("KeyError: 'Traceback (most recent call last):\\n  File \"/env/lib/python3.6/site-packages/torch/utils/data/dataloader.py\", line 106, in _worker_loop\\n    samples = collate_fn([dataset[i] for i in batch_indices])\\n  File \"/job/data/voc0712.py\", line 110, in __getitem__\\n    im, gt, h, w = self.pull_item(index)\\n  File \"/job/data/voc0712.py\", line 67, in __call__\\n    label_idx = self.class_to_ind[name]\\nKeyError: \\'trepang\\'\\n'\n", "VG554"),
    "Facico/Chinese-Vicuna#144 what peft gives none of back": (traced("/job/finetune.py|133|<module>|model.print_trainable_parameters()", "AttributeError: 'NoneType' object has no attribute 'print_trainable_parameters'"), "VG570"),
    "LambdaLabsML/examples#39 a grey picture": (CHANNELS.format("128, 3, 3, 3", "3, 1, 512, 512", 3, 1), "VG518"),
    "midasklr/facelandmarks#4 colours that are last": (CHANNELS.format("10, 3, 3, 3", "1, 361, 424, 3", 3, 361), "VG518"),
    "Ha0Tang/LGGAN#8 channels that are no colours": (CHANNELS.format("64, 151, 7, 7", "8, 13, 262, 262", 151, 13), "unknown"),
    "dvl-tum/ciagan#8 channels within a model": (CHANNELS.format("3, 16, 3, 3", "1, 32, 64, 64", 16, 32), "unknown"),
    "an inpainting model's latents": (CHANNELS.format("320, 9, 3, 3", "2, 4, 64, 64", 9, 4), "unknown"),
    "deepset-ai/FARM#100 the message alone": ("`Expected input batch_size (8) to match target batch_size (32)`\n", "VG597"),
    "WongKinYiu/yolov7#1751 a class beyond the classes": (traced("train.py|251|train|assert mlc < nc, 'Label class %g exceeds nc=%g in %s. Possible class labels are 0-%g' % (mlc, nc, opt.data, nc - 1)", "AssertionError: Label class 47 exceeds nc=47 in data/coco.yaml. Possible class labels are 0-46"), "VG597"),
    "modelscope/ms-swift#5087 VS Code's, the innermost frame first": ("发生异常: KeyError       (note: full exception trace is shown but execution is paused at: _run_module_as_main)\n'prompt'\n  File \"D:\\\\envs\\\\qwen\\\\Lib\\\\site-packages\\\\trl\\\\trainer\\\\grpo_trainer.py\", line 519, in _prepare_inputs\n    prompts = [x[\"prompt\"] for x in inputs]\n               ~^^^^^^^^^^\n  File \"D:\\\\envs\\\\qwen\\\\Lib\\\\site-packages\\\\transformers\\\\trainer.py\", line 3702, in training_step\n    inputs = self._prepare_inputs(inputs)\n".replace("\\\\", "\\"), "VG554"),
    "bubbliiiing/yolov8-pytorch#72 VS Code's, of a worker": ("发生异常: ValueError\nCaught ValueError in DataLoader worker process 0.\nOriginal " + traced("~torch/utils/data/_utils/fetch.py|44|<listcomp>|data = [self.dataset[idx] for idx in possibly_batched_index]\n/job/utils/dataloader.py|106|get_random_data|box = np.array([np.array(list(map(int,box.split(',')))) for box in line[1:]])", "ValueError: invalid literal for int() with base 10: '300.66'"), "VG554"),
    "InternLM/xtuner#432 a parameter of no rows": (traced("/job/xtuner/model/anyshape_llava.py|109|preprocess_for_pixel_values|self.image_newline[:, None, None].expand(", "RuntimeError: The expanded size of the tensor (4096) must match the existing size (0) at non-singleton dimension 0.  Target sizes: [4096, 32, 1].  Tensor sizes: [0, 1, 1]"), "VG523"),
    "PlayVoice/lora-svc#63 a line that is empty": (traced("/job/utils/dataloader.py|58|_filter|for wavpath, pitch, ppg, spk in self.items:", "ValueError: not enough values to unpack (expected 4, got 1)"), "VG554"),
    "Lightning-AI/litgpt#73 a model's own call": (traced("/job/lit_parrot/adapter.py|207|forward|x, _ = block(x, (cos, sin), mask, max_seq_length)", "ValueError: too many values to unpack (expected 2)"), "unknown"),
    "pbcquoc/vietocr#66 a letter in no table": (traced("~torch/utils/data/_utils/fetch.py|44|<listcomp>|data = [self.dataset[idx] for idx in possibly_batched_index]\n/job/vietocr/model/vocab.py|20|<listcomp>|return [self.go] + [self.c2i[c] for c in chars] + [self.eos]", "KeyError: '°'"), "VG554"),
    "bdhingra/ga-reader#9 a word in no table": (traced("/job/utils/DataPreprocessor.py|142|<lambda>|qry_words = map(lambda w:w_dict[w], qry_raw)", "KeyError: '@entity133'"), "VG554"),
    "Totoro97/NeuS#84 a place in a picture": (traced("/job/models/dataset.py|119|gen_random_rays_at|mask = self.masks[img_idx][(pixels_y, pixels_x)]      # batch_size, 3", "IndexError: index 3678 is out of bounds for dimension 1 with size 3024"), "unknown"),
    "zjukg/MoMoK#11 a model's answer, in a file that loads data": (traced("/job/utils/data_loader.py|335|get_validation_pred|b_range = torch.arange(pred.shape[0], device=self.device)", "AttributeError: 'list' object has no attribute 'shape'"), "unknown"),
    "zhou13/lcnn#17 a model's own answer": (traced("/job/lcnn/trainer.py|70|_loss|losses = result[\"losses\"]", "KeyError: 'losses'"), "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("thread", THREADS)
def test_thread(tmp_path, thread):
    told_right(tmp_path, *THREADS[thread], None)


@pytest.mark.parametrize(
    "line",
    [
        "loss = 0.31 acc = 0.9 step = 12",
        "Skipping batch due to RuntimeError: CUDA out of memory",
        "    ValueError: if the argument is no number",
        "Raises = ValueError: never",
    ],
)
def test_words_of_a_run_that_goes_on(tmp_path, line):
    bars = "".join(f"{n}%|##  | {n}/100 [00:0{n}<01:00, 1.00s/it]\n" for n in (7, 8, 9))
    path = tmp_path / "train.log"
    path.write_text(f"{line}\n{bars}" + "{'train_runtime': 12.1, 'train_loss': 0.3}\n")
    assert explain([str(path)])[0].verdict == "finished"
